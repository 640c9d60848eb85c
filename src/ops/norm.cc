// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

namespace fovea {

void layer_norm(Threads& threads, const float* x, int64_t rows, int64_t cols, const float* weight,
                const float* bias, float eps, float* y) {
  threads.for_each(rows, 16, [&](int64_t begin, int64_t end) {
    layer_norm_reference(x + begin * cols, end - begin, cols, weight, bias, eps, y + begin * cols);
  });
}

void rms_norm(Threads& threads, const float* x, int64_t x_stride, int64_t rows, int64_t groups,
              int64_t cols, const float* weight, float eps, float* y, int64_t y_stride) {
  threads.for_each(rows, 16, [&](int64_t begin, int64_t end) {
    rms_norm_reference(x + begin * x_stride, x_stride, end - begin, groups, cols, weight, eps,
                       y + begin * y_stride, y_stride);
  });
}

}  // namespace fovea
