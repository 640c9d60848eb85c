// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "fovea/fovea.h"
#include "serve/pictures/ascii.h"
#include "serve/pictures/base64.h"
#include "serve/pictures/fetch.h"
#include "serve/pictures/picture_file.h"

namespace fovea::serve {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kLongestUrl = 8192;  // of all but data URLs
constexpr size_t kLongestScheme = 16;

// Without its padding, which is right or missing; empty where it is wrong.
std::string_view without_padding(std::string_view text) {
  std::string_view bare = text;
  while (bare.ends_with('=') && text.size() - bare.size() < 2) bare.remove_suffix(1);
  const bool padded = bare.size() < text.size();
  if (bare.size() % 4 == 1 || (padded && text.size() % 4 != 0)) return {};
  return bare;
}

// The first `right` characters of the text are base64; they need not stand there any more.
ApiError not_base64(std::string_view text, size_t right, const std::string& param) {
  const auto bad = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(right), text.end(),
                                [](char c) { return sextet_of(c) == 64; });
  const std::string what = bad == text.end()
                               ? "its length is none that base64 has"
                               : fmt::format("character {} is {}", bad - text.begin() + 1,
                                             *bad == '=' ? "a = before the end" : "foreign to it");
  return wrong_param(param, "the data URL's data is not base64: " + what, kUrlCode);
}

// What is wrong between "data:" and the comma; empty where nothing is. The type is not trusted, the
// bytes tell; one that cannot be a picture is a mistake that is better told.
std::string wrong_media_type(std::string_view head) {
  const std::string lower = lower_case(head);
  const size_t last = lower.rfind(';');
  if (last == std::string::npos || lower.substr(last + 1) != "base64")
    return "the data URL is not base64; write data:image/png;base64,...";
  const std::string type = lower.substr(0, lower.find(';'));
  if (type.empty() || type.starts_with("image/") || type == "application/octet-stream") return "";
  return fmt::format("the data URL is of the type {}, no picture's", type);
}

// What is behind the comma, with its padding, where all before it is well and it is not too much.
ApiResult<std::string_view> find_data(std::string_view url, const PictureLimits& limits,
                                      const std::string& param) {
  url.remove_prefix(std::string_view("data:").size());
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos)
    return wrong_param(param, "the data URL has no comma; write data:image/png;base64,...",
                       kUrlCode);
  if (comma > kLongestUrl) return wrong_param(param, "the data URL's type is too long", kUrlCode);
  const std::string wrong = wrong_media_type(url.substr(0, comma));
  if (!wrong.empty()) return wrong_param(param, wrong, kUrlCode);
  const std::string_view text = url.substr(comma + 1);
  if (text.empty()) return wrong_param(param, "the data URL has no data", kUrlCode);
  const uint64_t most = static_cast<uint64_t>(std::max<int64_t>(limits.bytes, 0));
  if (bytes_of_base64(without_padding(text).size()) > most)
    return wrong_param(param,
                       fmt::format("the picture has more than {} bytes; make it smaller", most),
                       "picture_too_large");
  return text;
}

// The data of a URL -> what it stands for, which may be written where it stands.
// bytes: [bytes_of_base64(without_padding(text).size())]
std::optional<ApiError> decode_data(std::string_view text, uint8_t* bytes,
                                    const std::string& param) {
  const std::string_view bare = without_padding(text);
  const size_t right = decode_base64(bare, bytes);
  if (bare.empty() || right < bare.size()) return not_base64(text, right, param);
  return std::nullopt;
}

ApiResult<Bytes> read_data(std::string_view url, const PictureLimits& limits,
                           const std::string& param) {
  auto text = find_data(url, limits, param);
  if (auto* error = std::get_if<ApiError>(&text)) return std::move(*error);
  const auto data = std::get<std::string_view>(text);
  Bytes bytes(bytes_of_base64(without_padding(data).size()));
  if (auto error = decode_data(data, bytes.data(), param)) return std::move(*error);
  return bytes;
}

ApiResult<Bytes> read_bytes(const std::string& url, const PictureLimits& limits,
                            const std::string& param) {
  const size_t colon = std::string_view(url).substr(0, kLongestScheme).find(':');
  const std::string scheme =
      colon == std::string::npos ? "" : lower_case(std::string_view(url).substr(0, colon));
  if (scheme == "data") return read_data(url, limits, param);
  const bool is_web = scheme == "http" || scheme == "https";
  if (!is_web && scheme != "file")
    return wrong_param(param,
                       "the URL's kind is none that pictures come by; write "
                       "data:image/png;base64,..., https://, http:// or file://",
                       kUrlCode);
  if (url.size() > kLongestUrl)
    return wrong_param(param, fmt::format("the URL has more than {} characters", kLongestUrl),
                       kUrlCode);
  return is_web ? fetch_picture(url, limits, param) : read_picture_file(url, limits, param);
}

// Not the client's fault: with more memory the same picture is read.
ApiError no_memory(const std::string& param) {
  return {503, "there is not enough memory for the picture; try again, or make it smaller", param,
          "out_of_memory"};
}

// The decoder's own reason.
ApiError no_picture(const Error& error, const std::string& param) {
  if (error.kind == Error::Kind::kFailed) return no_memory(param);  // nothing else fails there
  constexpr std::string_view kBefore = "cannot read the image: ";
  std::string_view reason = error.message;
  if (reason.starts_with(kBefore)) reason.remove_prefix(kBefore.size());
  return wrong_param(param, fmt::format("the picture cannot be read: {}", reason),
                     "invalid_picture");
}

}  // namespace

ApiResult<Bytes> read_picture(const std::string& url, const PictureLimits& limits,
                              const std::string& param) {
  try {
    return read_bytes(url, limits, param);
  } catch (const std::bad_alloc&) {
    return no_memory(param);
  }
}

ApiResult<std::span<const uint8_t>> read_data_url_in_place(std::span<char> url,
                                                           const PictureLimits& limits,
                                                           const std::string& param) {
  auto text = find_data({url.data(), url.size()}, limits, param);
  if (auto* error = std::get_if<ApiError>(&text)) return std::move(*error);
  const auto data = std::get<std::string_view>(text);
  const std::span<char> place = url.last(data.size());
  auto* const bytes = reinterpret_cast<uint8_t*>(place.data());
  if (auto error = decode_data(data, bytes, param)) return std::move(*error);
  return std::span<const uint8_t>(bytes, bytes_of_base64(without_padding(data).size()));
}

ApiResult<Image> decode_picture(std::span<const uint8_t> file, const PictureLimits& limits,
                                const std::string& param) {
  try {
    auto image = load_image(file, limits.pixels);
    if (!image) return no_picture(image.error(), param);
    return *std::move(image);
  } catch (const std::bad_alloc&) {
    return no_memory(param);
  }
}

ApiResult<Image> load_picture(const std::string& url, const PictureLimits& limits,
                              const std::string& param) {
  auto file = read_picture(url, limits, param);
  if (auto* error = std::get_if<ApiError>(&file)) return std::move(*error);
  return decode_picture(std::get<Bytes>(file), limits, param);
}

}  // namespace fovea::serve
