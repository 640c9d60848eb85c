// SPDX-License-Identifier: Apache-2.0
// The fast form of rotate, for the machine this runs on, on one thread.
#pragma once

#include <cstdint>

namespace fovea {

void rotate_cpu(float* x, int64_t x_stride, int64_t rows, int heads, int head_dim, const float* cos,
                const float* sin);

}  // namespace fovea
