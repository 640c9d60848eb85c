// SPDX-License-Identifier: Apache-2.0
// The fast forms of the element-wise functions, for the machine this runs on, on one thread.
#pragma once

#include <cstdint>

namespace fovea {

void gelu_tanh_cpu(float* x, int64_t count);
void gelu_cpu(float* x, int64_t count);
void silu_multiply_cpu(float* gate, const float* up, int64_t count);
void add_cpu(float* x, const float* y, int64_t count);

}  // namespace fovea
