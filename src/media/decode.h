// SPDX-License-Identifier: Apache-2.0
// media: bytes -> Image. JPEG, PNG and WebP, told apart by their first bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

inline constexpr int64_t kDefaultMaxPixels = 178'956'970;
inline constexpr int kMaxSideRatio = 200;
inline constexpr int kMaxJpegScans = 256;

struct DecodeLimits {
  int64_t max_pixels = kDefaultMaxPixels;  // checked from the header, before memory is taken
};

// Decodes to 8-bit RGB: EXIF orientation applied, alpha composited over white, 16-bit samples by
// their high byte, the first frame of an animation. `name` stands in the error message.
Result<Image> decode_image(std::span<const uint8_t> bytes, const std::string& name,
                           const DecodeLimits& limits = {});

// The same from a file or a FIFO; "-" reads stdin.
Result<Image> read_image(const std::string& path, const DecodeLimits& limits = {});

}  // namespace fovea
