// SPDX-License-Identifier: Apache-2.0
// An angle of M-RoPE, for the kernels that make them.
#pragma once

#include "device/cuda/kernel.h"
#include "language/angles_cuda.h"

namespace fovea {

// Angle i of row `row`, which is at `position`.
__device__ inline void rotary_angle(const AngleJob& job, int64_t row, int i,
                                    const TokenPosition& position) {
  float along = position.time;
  if (i % 3 == 1 && i < job.row_end) along = position.row;
  if (i % 3 == 2 && i < job.col_end) along = position.col;
  const float angle = along * job.frequencies[i];
  job.cos[row * job.half + i] = cosf(angle);
  job.sin[row * job.half + i] = sinf(angle);
}

}  // namespace fovea
