// SPDX-License-Identifier: Apache-2.0
// Pictures that clients gave a uuid, so that they are sent once.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include "fovea/words.h"
#include "memory/digest.h"

namespace fovea::serve {

struct StoredPicture {
  Image image;
  Digest digest;  // of its file
};

// May be used from any thread. The picture that was used longest ago goes first.
class PictureStore {
 public:
  explicit PictureStore(int64_t most_bytes = int64_t{256} << 20) : most_bytes_(most_bytes) {}

  // Each key has names of its own. A picture larger than the store is not kept.
  void keep(int key, const std::string& uuid, const StoredPicture& picture);
  std::optional<StoredPicture> find(int key, const std::string& uuid);

 private:
  struct Kept {
    int key;
    std::string uuid;
    StoredPicture picture;
  };

  const int64_t most_bytes_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // the latest last
  int64_t bytes_ = 0;
};

}  // namespace fovea::serve
