// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

namespace fovea {

void rotate_reference(float* x, int64_t x_stride, int64_t rows, int heads, int head_dim,
                      const float* cos, const float* sin) {
  const int half = head_dim / 2;
  for (int64_t r = 0; r < rows; ++r, cos += half, sin += half) {
    for (int h = 0; h < heads; ++h) {
      float* first = x + r * x_stride + h * head_dim;
      float* second = first + half;
      for (int i = 0; i < half; ++i) {
        const float a = first[i];
        const float b = second[i];
        first[i] = a * cos[i] - b * sin[i];
        second[i] = b * cos[i] + a * sin[i];
      }
    }
  }
}

}  // namespace fovea
