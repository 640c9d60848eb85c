// SPDX-License-Identifier: Apache-2.0
#include "serve/room_queue.h"

#include <algorithm>
#include <utility>

namespace fovea::serve {

void RoomQueue::enter() {
  const std::lock_guard lock(mutex_);
  ++size_;
}

void RoomQueue::leave() noexcept {
  std::list<Waiting> all;
  {
    const std::lock_guard lock(mutex_);
    --size_;
    all.swap(waiting_);
  }
  for (const Waiting& one : all) one.again();
}

bool RoomQueue::wait(const void* who, std::function<void()> again) {
  const std::lock_guard lock(mutex_);
  if (size_ - static_cast<int>(waiting_.size()) <= 1) return false;
  waiting_.push_back({who, std::move(again)});
  return true;
}

void RoomQueue::hurry(const void* who) noexcept {
  std::function<void()> again;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Waiting& one) { return one.who == who; });
    if (found == waiting_.end()) return;
    again.swap(found->again);
    waiting_.erase(found);
  }
  again();
}

int RoomQueue::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace fovea::serve
