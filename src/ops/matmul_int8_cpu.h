// SPDX-License-Identifier: Apache-2.0
// What the forms of the int8 matmul share. All of them give the same bits where the CPU has fused
// multiply-add: sums within a block are exact, and blocks are added in order as
//   sum = fma(float(block sum) * x scale, weight scale, sum).
#pragma once

#include "ops/int8_layout.h"
#include "ops/matmul_cpu.h"

namespace fovea {

// Rows of x as int8, in panels of at most `tall` rows (see Panels): the part of row i of a panel
// of `rows` rows that starts at row `begin` of x,
//   values: [blocks][16 groups][rows][4 columns], begin * padded columns values before it
//   scales, starts: [blocks][rows], begin * blocks values before it
// x = scale * value. `start` is -128 times the sum of a block's values: with it a sum of products
// with weights that are kept 128 too high comes out right.
struct QuantisedInput {
  int64_t first_row = 0;  // of y
  int64_t m = 0;
  int64_t blocks = 0;
  int64_t tall = 0;
  const void* values = nullptr;  // int8_t or int16_t, as the form wants it
  const float* scales = nullptr;
  const int32_t* starts = nullptr;
};

enum class Int8Form { kHighway, kAvxVnni, kAvx512Vnni };

// The target that Highway has chosen, as HWY_AVX2 and so on.
int64_t highway_target();
// The best form this CPU has among those that Highway's targets, and tests, leave.
Int8Form int8_form();
// For tests: false leaves the form without VNNI.
void allow_vnni_for_test(bool allow);

// y for the outputs of the piece and all rows of the input.
void int8_piece_avx512_vnni(const QuantisedInput& x, const Piece& piece);
void int8_piece_avx_vnni(const QuantisedInput& x, const Piece& piece);
// One row of x, or a few, take so many panels at once, each a stream of weights: one does not keep
// the memory busy. What half of them read next is asked for in advance, into the second cache; with
// all of them one row is slower.
constexpr int kStreams = 4;
constexpr int64_t kAvx512VnniTall = 12;
constexpr int64_t kAvxVnniTall = 5;

// Sums of 16 outputs and a row of x, to where they belong.
inline void store_outputs(const float* sums, const Product& product, int64_t i, int64_t j,
                          int64_t count) {
  float* y = product.y + i * output_stride(product) + j;
  for (int64_t c = 0; c < count; ++c) {
    const float sum = product.bias != nullptr ? sums[c] + product.bias[j + c] : sums[c];
    y[c] = product.accumulate ? y[c] + sum : sum;
  }
}

}  // namespace fovea
