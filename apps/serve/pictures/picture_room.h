// SPDX-License-Identifier: Apache-2.0
// How many bytes the decoded pictures of all requests may take together.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "serve/api_error.h"
#include "serve/pictures/pictures.h"

namespace fovea::serve {

// May be used from any thread; outlives what was taken of it. Nobody waits for room, since who has
// some may need more: who finds none is told to come again.
class PictureRoom {
 public:
  explicit PictureRoom(int64_t bytes) : bytes_(bytes) {}

  // Bytes of the room, until it goes. It takes no memory.
  class Share {
   public:
    Share() = default;
    ~Share() { give_back(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    void give_back();

   private:
    friend class PictureRoom;
    PictureRoom* room_ = nullptr;
    int64_t bytes_ = 0;
  };

  // More for a share, by pixels; false where there is no room.
  bool take(int64_t pixels, Share& share);
  int64_t taken() const;

 private:
  const int64_t bytes_;
  mutable std::mutex mutex_;
  int64_t taken_ = 0;
};

// As many as the header of a picture's file says; 0 where it is no picture, which the decoder says
// better.
int64_t pixels_of(std::span<const uint8_t> file, const PictureLimits& limits);

// 503 for who finds no room.
ApiError no_picture_room(const std::string& param);

}  // namespace fovea::serve
