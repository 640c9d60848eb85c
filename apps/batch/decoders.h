// SPDX-License-Identifier: Apache-2.0
// Pictures that are decoded ahead of who asks about them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea::batch {

class Decoders {
 public:
  // Decodes `paths` from `first` on, on as many threads as there are to be or can be; at most one
  // picture for each of them is decoded, or being decoded, and not taken yet. `on_decoded` is
  // called on these threads, and may not throw.
  Decoders(const std::vector<std::string>& paths, size_t first, int threads, int64_t max_pixels,
           std::function<void()> on_decoded);
  ~Decoders();
  Decoders(const Decoders&) = delete;
  Decoders& operator=(const Decoders&) = delete;

  // The next picture, in their order, or why there is none; nothing where it is not decoded yet.
  // Without threads it is decoded here.
  std::optional<Result<Image>> take();

 private:
  void work();
  Result<Image> decode(size_t number) const;

  const std::vector<std::string>& paths_;
  const int64_t max_pixels_;
  const std::function<void()> on_decoded_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  size_t begun_;  // numbers of pictures: those before it are decoded, or being decoded
  size_t taken_;
  bool stop_ = false;
  std::vector<std::optional<Result<Image>>> decoded_;  // picture i at i % its size
  std::vector<std::thread> threads_;
};

}  // namespace fovea::batch
