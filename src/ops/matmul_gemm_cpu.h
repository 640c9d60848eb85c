// SPDX-License-Identifier: Apache-2.0
// Blocks and tiles of matmul_gemm_cpu.cc.
#pragma once

#include "ops/matmul_cpu.h"

namespace fovea {

// Columns that are packed and summed at a time: a panel of weights stays in the nearest caches.
constexpr int64_t kDepth = 512;
// Outputs that a thread takes at a time; a multiple of every target's panel.
constexpr int64_t kPieceRows = 64;

// The part of x that is packed: rows [i_begin, i_begin + rows) and columns [c_begin, c_end).
struct GemmBlock {
  int64_t i_begin = 0;
  int64_t rows = 0;
  int64_t c_begin = 0;
  int64_t c_end = 0;
};

// Where the sums of a tile go.
struct TileTarget {
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t columns = 0;          // outputs that exist, at most a panel
  const float* bias = nullptr;  // [columns], or null
  bool accumulate = false;
};

}  // namespace fovea
