// SPDX-License-Identifier: Apache-2.0
// media: bytes -> Image. JPEG, PNG and WebP, told apart by their first bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

inline constexpr int64_t kDefaultMaxPixels = 178'956'970;
inline constexpr int kMaxSideRatio = 200;
inline constexpr int kMaxJpegScans = 256;
// Every scan goes over all pixels, however few bytes it has. Encoders make up to 18 scans; more
// than this are read where scans x pixels stay within the limit.
inline constexpr int kJpegScansOfAnySize = 32;
inline constexpr int64_t kMaxJpegScanPixels = int64_t{1} << 28;

struct ImageLimits {
  int64_t max_pixels = kDefaultMaxPixels;  // checked from the header, before memory is taken
};

// Decodes to 8-bit RGB: EXIF orientation applied, alpha composited over white, 16-bit samples by
// their high byte, the first frame of an animation. `name` stands in the error message.
Result<Image> decode_image(std::span<const uint8_t> bytes, const std::string& name,
                           const ImageLimits& limits = {});

// The bytes of a file or a pipe ("-": stdin) whose header an image within the limits may have; no
// more are read than such an image may take.
Result<std::vector<uint8_t>> read_image_file(const std::string& path,
                                             const ImageLimits& limits = {});

// Both: from a path to pixels.
Result<Image> read_image(const std::string& path, const ImageLimits& limits = {});

}  // namespace fovea
