// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/norm.h"

namespace fovea {

void layer_norm_reference(const float* x, int64_t rows, int64_t cols, const float* weight,
                          const float* bias, float eps, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += cols, y += cols) {
    double mean = 0;
    for (int64_t c = 0; c < cols; ++c) mean += x[c];
    mean /= static_cast<double>(cols);
    double variance = 0;
    for (int64_t c = 0; c < cols; ++c) variance += (x[c] - mean) * (x[c] - mean);
    const double factor = 1 / std::sqrt(variance / static_cast<double>(cols) + eps);
    for (int64_t c = 0; c < cols; ++c)
      y[c] = static_cast<float>((x[c] - mean) * factor * weight[c] + bias[c]);
  }
}

void rms_norm_reference(const float* x, int64_t x_stride, int64_t rows, int64_t groups,
                        int64_t cols, const float* weight, float eps, float* y, int64_t y_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t g = 0; g < groups; ++g) {
      const float* from = x + r * x_stride + g * cols;
      float* to = y + r * y_stride + g * cols;
      double squares = 0;
      for (int64_t c = 0; c < cols; ++c) squares += static_cast<double>(from[c]) * from[c];
      const double factor = 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
      for (int64_t c = 0; c < cols; ++c) to[c] = static_cast<float>(from[c] * factor * weight[c]);
    }
  }
}

}  // namespace fovea
