// SPDX-License-Identifier: Apache-2.0
// PNG samples of every colour type -> RGB over white.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace fovea {

enum class PngSamples {
  kTable,
  kGray16,
  kRgb8,
  kRgb16,
  kGrayAlpha8,
  kGrayAlpha16,
  kRgba8,
  kRgba16
};

// How the samples of one picture become pixels. Gray of up to 8 bits and palettes go through a
// table whose colours are composited already; of 16-bit samples the high byte counts.
struct PngPixels {
  PngSamples samples = PngSamples::kTable;
  std::array<std::array<uint8_t, 3>, 256> table{};
  int table_size = 0;                          // an index from here on is out of range
  std::optional<std::array<uint16_t, 3>> key;  // the one colour that is transparent
};

// Converts `count` pixels, one sample a byte (two for 16 bits, big-endian), to RGB with `step`
// pixels from one to the next in `rgb`. Returns the first index out of the table's range, or -1.
int png_to_rgb(const PngPixels& pixels, const uint8_t* samples, int count, uint8_t* rgb, int step);

}  // namespace fovea
