// SPDX-License-Identifier: Apache-2.0
#include "batch/decoders.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/out_of_memory.h"
#include "fovea/fovea.h"

namespace fovea::batch {

Decoders::Decoders(const std::vector<std::string>& paths, size_t first, int threads,
                   int64_t max_pixels, std::function<void()> on_decoded)
    : paths_(paths),
      max_pixels_(max_pixels),
      on_decoded_(std::move(on_decoded)),
      begun_(first),
      taken_(first),
      decoded_(static_cast<size_t>(std::max(threads, 1))) {
  threads_.reserve(decoded_.size());
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // no room for another stack, or a limit of the system
  } catch (const std::bad_alloc&) {     // what has started does
  }
}

Decoders::~Decoders() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<Image> Decoders::decode(size_t number) const {
  return within_memory([&] { return load_image(paths_[number], max_pixels_); });
}

void Decoders::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] {
      return stop_ || (begun_ < paths_.size() && begun_ - taken_ < decoded_.size());
    });
    if (stop_) return;
    const size_t number = begun_++;
    lock.unlock();
    auto image = decode(number);
    lock.lock();
    decoded_[number % decoded_.size()].emplace(std::move(image));
    on_decoded_();
  }
}

std::optional<Result<Image>> Decoders::take() {
  if (threads_.empty())
    return taken_ < paths_.size() ? std::optional(decode(taken_++)) : std::nullopt;
  std::optional<Result<Image>> image;
  {
    const std::scoped_lock lock(mutex_);
    image.swap(decoded_[taken_ % decoded_.size()]);
    if (!image) return image;
    ++taken_;
  }
  changed_.notify_one();
  return image;
}

}  // namespace fovea::batch
