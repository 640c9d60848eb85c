// SPDX-License-Identifier: Apache-2.0
#include "serve/call_pictures.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "serve/openai/read_look.h"

namespace fovea::serve {
namespace {

Digest digest_of_file(std::span<const uint8_t> file) {
  return Hasher().bytes(std::as_bytes(file)).finish();
}

}  // namespace

ApiResult<CallPictures::File> CallPictures::read_file(PictureName& name,
                                                      const PictureLimits& limits) {
  if (!name.long_url.empty()) {
    auto in_place = read_data_url_in_place(name.long_url, limits, name.param);
    if (auto* error = std::get_if<ApiError>(&in_place)) return std::move(*error);
    name.long_url = {};
    return File{std::move(name.body), std::get<std::span<const uint8_t>>(in_place)};
  }
  auto read = read_picture(name.url, limits, name.param);
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  std::string().swap(name.url);  // nobody reads it again
  const auto owner =
      std::make_shared<const std::vector<uint8_t>>(std::move(std::get<std::vector<uint8_t>>(read)));
  return File{owner, *owner};
}

std::optional<ApiError> CallPictures::load(ChatCall& call, const Source& source,
                                           const std::atomic<bool>& gone) {
  int64_t pixels = 0;
  // Before they are decoded.
  const auto check = [&](int64_t more, const std::string& param) -> std::optional<ApiError> {
    pixels += more;
    if (pixels > source.pixels)
      return wrong_param(
          param,
          fmt::format("the pictures have more than {} pixels together; give fewer or "
                      "smaller ones",
                      source.pixels),
          "picture_too_large");
    if (!source.room.take(more, share_)) return no_picture_room(param);
    return std::nullopt;
  };
  for (PictureName& name : call.pictures) {
    if (gone) return std::nullopt;
    StoredPicture picture;
    File file;
    if (name.url.empty() && name.long_url.empty()) {
      auto stored = source.store.find(source.key, name.uuid);
      if (!stored)
        return wrong_param(name.param, "no picture with this uuid was sent; send it with its url",
                           "unknown_uuid");
      picture = std::move(*stored);
      if (auto error = check(picture.image.size.pixels(), name.param)) return error;
    } else {
      auto read = read_file(name, source.limits);
      if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
      file = std::move(std::get<File>(read));
      if (auto error = check(pixels_of(file.bytes, source.limits), name.param)) return error;
      auto decoded = decode_picture(file.bytes, source.limits, name.param);
      if (auto* error = std::get_if<ApiError>(&decoded)) return std::move(*error);
      picture.image = std::move(std::get<Image>(decoded));
    }
    if (!file.bytes.empty() && !name.uuid.empty()) {
      picture.digest = digest_of_file(file.bytes);
      file = {};
      source.store.keep(source.key, name.uuid, picture);
    }
    if (!name.regions.empty()) {
      call.request.options.coupling.resize(call.pictures.size());
      call.request.options.coupling[images.size()] =
          couple_regions(name.regions, picture.image.size);
    }
    digests_.push_back(picture.digest);
    files_.push_back(std::move(file));
    images.push_back(std::move(picture.image));
  }
  return std::nullopt;
}

std::span<const Digest> CallPictures::digests() {
  std::call_once(are_known_, [this] {
    for (size_t i = 0; i < digests_.size(); ++i)
      if (!files_[i].bytes.empty()) digests_[i] = digest_of_file(files_[i].bytes);
    files_.clear();
  });
  return digests_;
}

}  // namespace fovea::serve
