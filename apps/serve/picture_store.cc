// SPDX-License-Identifier: Apache-2.0
#include "serve/picture_store.h"

#include <algorithm>
#include <utility>

namespace fovea::serve {
namespace {

constexpr int64_t kAround = 256;  // what a picture takes besides its pixels and its name

int64_t bytes_of(const std::string& uuid, const Image& image) {
  return static_cast<int64_t>(image.rgb.size() + uuid.size()) + kAround;
}

}  // namespace

void PictureStore::keep(int key, const std::string& uuid, const StoredPicture& picture) {
  const int64_t bytes = bytes_of(uuid, picture.image);
  const bool fits = bytes <= most_bytes_;
  std::list<Kept> one;
  if (fits) one.push_back({key, uuid, picture});
  std::list<Kept> dropped;
  const std::lock_guard lock(mutex_);
  const auto drop = [&](std::list<Kept>::iterator which) {
    bytes_ -= bytes_of(which->uuid, which->picture.image);
    dropped.splice(dropped.end(), kept_, which);
  };
  const auto same = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.key == key && kept.uuid == uuid;
  });
  if (same != kept_.end()) drop(same);
  if (!fits) return;
  while (bytes_ + bytes > most_bytes_) drop(kept_.begin());
  kept_.splice(kept_.end(), one);
  bytes_ += bytes;
}

std::optional<StoredPicture> PictureStore::find(int key, const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.key == key && kept.uuid == uuid;
  });
  if (found == kept_.end()) return std::nullopt;
  kept_.splice(kept_.end(), kept_, found);
  return found->picture;
}

}  // namespace fovea::serve
