// SPDX-License-Identifier: Apache-2.0
// Lightness of 8-bit RGB pixels, in integers so that every device agrees.
#pragma once

#include <cstdint>

namespace fovea {

// Rec. 601 weights in 1/256; they sum to 256, so gray stays what it is.
inline constexpr int kLumaRed = 77;
inline constexpr int kLumaGreen = 150;
inline constexpr int kLumaBlue = 29;

inline uint8_t luma_of(const uint8_t* rgb) {
  return static_cast<uint8_t>(
      (kLumaRed * rgb[0] + kLumaGreen * rgb[1] + kLumaBlue * rgb[2] + 128) >> 8);
}

// luma[x] = luma_of(rgb + 3 x) for x in [0, count).
void luma_row(const uint8_t* rgb, int count, uint8_t* luma);

}  // namespace fovea
