// SPDX-License-Identifier: Apache-2.0
// The fast forms of the norms, for the machine this runs on, on one thread.
#pragma once

#include <cstdint>

namespace fovea {

void layer_norm_cpu(const float* x, int64_t rows, int64_t cols, const float* weight,
                    const float* bias, float eps, float* y);
void rms_norm_cpu(const float* x, int64_t x_stride, int64_t rows, int64_t groups, int64_t cols,
                  const float* weight, float eps, float* y, int64_t y_stride);

}  // namespace fovea
