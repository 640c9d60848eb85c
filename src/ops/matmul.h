// SPDX-License-Identifier: Apache-2.0
// Linear layers: y = x W^T + bias, for one or several matrices that share their input.
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "ops/matrix.h"

namespace fovea {

// One product of a matmul. n = weights->rows().
struct Product {
  const Matrix* weights = nullptr;  // [n][k]
  const float* bias = nullptr;      // [n], or null
  float* y = nullptr;               // [m][n], rows `y_stride` values apart
  int64_t y_stride = 0;             // 0: n
  bool accumulate = false;          // y += instead of y =
};

// Up to so many rows of x, the bits of a row of y depend on that row of x alone: it may stand alone
// or among others, anywhere, on any number of threads. The weights are read once for all rows. More
// rows of f32 or bf16 are summed in another order: transposing the weights first then costs less
// than it saves.
constexpr int64_t kFewRows = 32;

// For each product: y[i][j] = sum over c of x[i][c] * W[j][c], + bias[j], for i < m, j < n.
// x is [m][k], rows x_stride values apart (0: k); all weights have k columns. Sums are f32, or
// exact int32 within a block of an int8 matrix. y may not overlap x.
void matmul(Threads& threads, const float* x, int64_t x_stride, int64_t m,
            std::span<const Product> products);

inline void matmul(Threads& threads, const float* x, int64_t m, const Product& product) {
  matmul(threads, x, 0, m, {&product, 1});
}

// The specification: every weight as Matrix::row gives it, sums in f64.
void matmul_reference(const float* x, int64_t x_stride, int64_t m,
                      std::span<const Product> products);

}  // namespace fovea
