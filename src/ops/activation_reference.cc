// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/activation.h"

namespace fovea {

void gelu_tanh_reference(float* x, int64_t count) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  for (int64_t i = 0; i < count; ++i) {
    const double v = x[i];
    x[i] = static_cast<float>(v / 2 * (1 + std::tanh(root * (v + 0.044715 * v * v * v))));
  }
}

void gelu_reference(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double v = x[i];
    x[i] = static_cast<float>(v / 2 * (1 + std::erf(v / std::sqrt(2.0))));
  }
}

void silu_multiply_reference(float* gate, const float* up, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double v = gate[i];
    gate[i] = static_cast<float>(v / (1 + std::exp(-v)) * up[i]);
  }
}

}  // namespace fovea
