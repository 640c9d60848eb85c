// SPDX-License-Identifier: Apache-2.0
// Rotary embedding: pairs of values rotated by angles that depend on where a token stands.
#pragma once

#include <cstdint>

#include "base/threads.h"

namespace fovea {

// For each row r, head h and i < head_dim / 2, with a = x[r][h][i], b = x[r][h][i + head_dim / 2]:
//   x[r][h][i] = a * cos[r][i] - b * sin[r][i],  x[r][h][i + head_dim/2] = b * cos[r][i] + a *
//   sin[r][i]
// x is [rows][heads][head_dim], rows x_stride values apart; cos and sin are [rows][head_dim / 2].
void rotate(Threads& threads, float* x, int64_t x_stride, int64_t rows, int heads, int head_dim,
            const float* cos, const float* sin);

void rotate_reference(float* x, int64_t x_stride, int64_t rows, int heads, int head_dim,
                      const float* cos, const float* sin);

}  // namespace fovea
