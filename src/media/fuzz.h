// SPDX-License-Identifier: Apache-2.0
// What the fuzzers of the decoders share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "media/decode.h"
#include "media/format.h"

namespace fovea {

// Runs one decoder on bytes that begin as its format does, within a small limit of pixels: large
// pictures take time and find nothing that small ones do not.
inline int fuzz_decoder(Bytes bytes, Format format) {
  constexpr ImageLimits kLimits{.max_pixels = 1 << 18};
  const Result<Format> sniffed = sniff_format(bytes);
  if (!sniffed || *sniffed != format) return 0;
  const Result<Image> image = decode_image(bytes, "fuzz", kLimits);
  if (!image) {
    FOVEA_CHECK(image.error().message.find('\n') == std::string::npos);
    return 0;
  }
  FOVEA_CHECK(image->size.pixels() >= 1 && image->size.pixels() <= kLimits.max_pixels);
  FOVEA_CHECK(image->rgb.size() == static_cast<size_t>(image->size.pixels()) * 3);
  return 0;
}

}  // namespace fovea
