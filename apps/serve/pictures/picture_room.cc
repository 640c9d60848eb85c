// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/picture_room.h"

#include <utility>

#include "media/image_size.h"

namespace fovea::serve {

bool PictureRoom::take(int64_t pixels, Share& share) {
  constexpr int64_t kBytesPerPixel = 3;
  const std::lock_guard lock(mutex_);
  if (pixels > (bytes_ - taken_) / kBytesPerPixel) return false;
  taken_ += pixels * kBytesPerPixel;
  share.room_ = this;
  share.bytes_ += pixels * kBytesPerPixel;
  return true;
}

int64_t PictureRoom::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

void PictureRoom::Share::give_back() {
  PictureRoom* const room = std::exchange(room_, nullptr);
  if (room == nullptr) return;
  const std::lock_guard lock(room->mutex_);
  room->taken_ -= std::exchange(bytes_, 0);
}

int64_t pixels_of(std::span<const uint8_t> file, const PictureLimits& limits) {
  ImageLimits most;
  if (limits.pixels > 0) most.max_pixels = limits.pixels;
  const auto size = image_size(file, most);
  return size ? size->pixels() : 0;
}

ApiError no_picture_room(const std::string& param) {
  return {503, "the pictures of other requests take the memory there is for them; try again", param,
          "memory_busy"};
}

}  // namespace fovea::serve
