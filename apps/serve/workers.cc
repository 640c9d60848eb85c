// SPDX-License-Identifier: Apache-2.0
#include "serve/workers.h"

#include <algorithm>
#include <new>
#include <utility>

namespace fovea::serve {

int Workers::start(int wanted) {
  constexpr size_t kLeft = 2;  // the engine's own, and one of who fetches pictures
  threads_.reserve(static_cast<size_t>(wanted));
  try {
    for (int i = 0; i < wanted; ++i)
      threads_.emplace_back([this, i] { work(static_cast<size_t>(i)); });
  } catch (...) {  // the system has no room for one more, or memory has run out
    {
      const std::lock_guard lock(mutex_);
      most_ =
          threads_.size() > kLeft ? threads_.size() - kLeft : std::min<size_t>(threads_.size(), 1);
    }
    changed_.notify_all();
    for (; threads_.size() > most_; threads_.pop_back()) threads_.back().join();
  }
  return static_cast<int>(threads_.size());
}

Workers::~Workers() {
  std::list<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::add(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Workers::work(size_t number) {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      const auto ends = [&] { return stop_ || number >= most_; };
      changed_.wait(lock, [&] { return ends() || !jobs_.empty(); });
      if (ends()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      job();
    } catch (const std::bad_alloc&) {
      continue;  // who asked hears of it: an exchange without an answer is answered by the server
    }
  }
}

void OneByOne::run(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(job));
    if (std::exchange(runs_, true)) return;
  }
  for (;;) {
    std::list<std::function<void()>> next;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        runs_ = false;
        return;
      }
      next.splice(next.begin(), waiting_, waiting_.begin());
    }
    try {
      next.front()();
    } catch (const std::bad_alloc&) {
      continue;  // who asked hears of it, as of a worker's
    }
  }
}

}  // namespace fovea::serve
