// SPDX-License-Identifier: Apache-2.0
// The pictures of one call: loaded, and told apart by digests of their files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fovea/fovea.h"
#include "memory/digest.h"
#include "serve/api_error.h"
#include "serve/openai/chat_request.h"
#include "serve/picture_store.h"
#include "serve/pictures/picture_room.h"
#include "serve/pictures/pictures.h"

namespace fovea::serve {

class CallPictures {
 public:
  // Where they come from, and how large they may be.
  struct Source {
    PictureStore& store;
    int key;  // of the client
    const PictureLimits& limits;
    int64_t pixels;  // of all together
    PictureRoom& room;
  };

  // Loads all that the call names and lets go of their URLs; regions become the coupling of its
  // options. Ends early, without an error, where the client is gone.
  std::optional<ApiError> load(ChatCall& call, const Source& source, const std::atomic<bool>& gone);

  std::vector<Image> images;

  // The images are not there any more, whoever took them.
  void give_room_back() { share_.give_back(); }

  // Of all pictures, those too whose images were taken. From any thread: who asks first computes
  // what is not known yet, which is a millisecond for a file of megabytes.
  std::span<const Digest> digests();

 private:
  // A picture's file, in memory of its own or in the request's body.
  struct File {
    std::shared_ptr<const void> owner;
    std::span<const uint8_t> bytes;
  };
  static ApiResult<File> read_file(PictureName& name, const PictureLimits& limits);

  std::vector<Digest> digests_;
  std::vector<File> files_;  // empty for those whose digest is known
  std::once_flag are_known_;
  PictureRoom::Share share_;
};

}  // namespace fovea::serve
