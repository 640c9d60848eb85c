// SPDX-License-Identifier: Apache-2.0
// Pictures that a request names by URL -> decoded images.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/words.h"
#include "serve/api_error.h"

namespace fovea::serve {

// The code of an error about the URL itself.
inline constexpr const char* kUrlCode = "invalid_picture_url";

struct PictureLimits {
  // http and https are taken from these alone; none: refused. "name" is its port 80 or 443 alone,
  // "name:port" another one.
  std::vector<std::string> hosts;
  std::string folder;  // file URLs are taken from inside it alone; empty: refused
  int64_t bytes = int64_t{20} << 20;
  int64_t pixels = 0;          // 0: the library's own limit
  int fetch_ms = 10'000;       // of one picture, all of it
  bool allow_private = false;  // for tests: hosts may resolve to addresses of this machine
};

// "data:image/png;base64,...", "http://", "https://", "file://". Any other kind, or a picture that
// is none, is 400; one that could not be fetched 422. `param` is the key that the error names. No
// message tells an address or a path of this machine.
ApiResult<Image> load_picture(const std::string& url, const PictureLimits& limits,
                              const std::string& param);

// The same in two steps: the bytes of the picture's file, and the image that they hold.
ApiResult<std::vector<uint8_t>> read_picture(const std::string& url, const PictureLimits& limits,
                                             const std::string& param);
// Those of a data URL take its place: megabytes that are neither copied nor touched for the first
// time. The URL is worth nothing afterwards, whatever comes of it.
ApiResult<std::span<const uint8_t>> read_data_url_in_place(std::span<char> url,
                                                           const PictureLimits& limits,
                                                           const std::string& param);
ApiResult<Image> decode_picture(std::span<const uint8_t> file, const PictureLimits& limits,
                                const std::string& param);

}  // namespace fovea::serve
