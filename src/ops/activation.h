// SPDX-License-Identifier: Apache-2.0
// The element-wise functions between linear layers.
#pragma once

#include <cstdint>

#include "base/threads.h"

namespace fovea {

// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))): the tower's blocks.
void gelu_tanh(Threads& threads, float* x, int64_t count);
// x/2 * (1 + erf(x / sqrt(2))): the mergers.
void gelu(Threads& threads, float* x, int64_t count);
// gate = gate / (1 + exp(-gate)) * up: SwiGLU.
void silu_multiply(Threads& threads, float* gate, const float* up, int64_t count);
// x += y.
void add(Threads& threads, float* x, const float* y, int64_t count);

// The specifications, in f64.
void gelu_tanh_reference(float* x, int64_t count);
void gelu_reference(float* x, int64_t count);
void silu_multiply_reference(float* gate, const float* up, int64_t count);

}  // namespace fovea
