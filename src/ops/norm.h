// SPDX-License-Identifier: Apache-2.0
// Norms over the last dimension. Sums are taken in f32 lanes, each row by one thread.
#pragma once

#include <cstdint>

#include "base/threads.h"

namespace fovea {

// y[r][c] = (x[r][c] - mean_r) / sqrt(variance_r + eps) * weight[c] + bias[c]; x, y: [rows][cols].
// y may be x.
void layer_norm(Threads& threads, const float* x, int64_t rows, int64_t cols, const float* weight,
                const float* bias, float eps, float* y);

// y[r][c] = x[r][c] / sqrt(mean over c of x[r][c]^2 + eps) * weight[c]. Rows of x and y lie
// x_stride and y_stride values apart and hold `groups` vectors of `cols` values side by side, each
// normed by itself: the heads of a row, or 1. y may be x.
void rms_norm(Threads& threads, const float* x, int64_t x_stride, int64_t rows, int64_t groups,
              int64_t cols, const float* weight, float eps, float* y, int64_t y_stride);

// The specifications, in f64.
void layer_norm_reference(const float* x, int64_t rows, int64_t cols, const float* weight,
                          const float* bias, float eps, float* y);
void rms_norm_reference(const float* x, int64_t x_stride, int64_t rows, int64_t groups,
                        int64_t cols, const float* weight, float eps, float* y, int64_t y_stride);

}  // namespace fovea
