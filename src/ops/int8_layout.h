// SPDX-License-Identifier: Apache-2.0
// How an int8 matrix lies in memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ops/matrix.h"

namespace fovea {

// Panels of 16 rows, one after the other. A panel holds its scales, [blocks][16 rows] as bf16, then
// its values, block of 64 columns by block, [blocks][16 groups of 4 columns][16 rows][4 columns].
// So 64 bytes in a row are what one step of a kernel takes, and a matrix is read from its beginning
// to its end: scales behind the values would be read far ahead of what is fetched in advance. A
// value is kept as quantised + 128, since the instructions that sum four products at once take one
// unsigned and one signed factor: weight = scale * (value - 128). Rows and columns that fill up a
// panel or a block are 128, which is 0.
struct Int8Layout {
  static constexpr int64_t kPanel = Matrix::kRowGroup;
  static constexpr int64_t kBlock = Matrix::kBlock;
  static constexpr int64_t kGroup = 4;                 // columns
  static constexpr int64_t kGroups = kBlock / kGroup;  // of a block
  static constexpr int64_t kBlockBytes = kPanel * kBlock;
  static constexpr int kZero = 128;

  Int8Layout(int64_t rows, int64_t cols)
      : panels((rows + kPanel - 1) / kPanel),
        blocks((cols + kBlock - 1) / kBlock),
        // Values start at a cache line, as the matrix does.
        values_offset((blocks * kPanel * 2 + 63) / 64 * 64),
        panel_bytes(values_offset + blocks * kBlockBytes) {}

  size_t bytes() const { return static_cast<size_t>(panels * panel_bytes); }

  // The value of a row of the panel, from the panel's first value.
  static int64_t value_offset(int64_t row, int64_t column) {
    return column / kGroup * (kPanel * kGroup) + row * kGroup + column % kGroup;
  }

  int64_t panels;
  int64_t blocks;
  int64_t values_offset;  // in a panel, in bytes
  int64_t panel_bytes;
};

inline float widen_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace fovea
