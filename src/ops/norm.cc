// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include <algorithm>

#include "base/check.h"
#include "ops/norm_cpu.h"

namespace fovea {
namespace {

// What one thread does in some microseconds, less than waking another is worth.
constexpr int64_t kChunkValues = 16 * 1024;

int64_t chunk_rows(int64_t row_values) {
  return std::max<int64_t>(1, kChunkValues / std::max<int64_t>(1, row_values));
}

}  // namespace

void layer_norm(Threads& threads, const float* x, int64_t rows, int64_t cols, const float* weight,
                const float* bias, float eps, float* y) {
  FOVEA_CHECK(cols > 0);
  threads.for_each(rows, chunk_rows(cols), [&](int64_t begin, int64_t end) {
    layer_norm_cpu(x + begin * cols, end - begin, cols, weight, bias, eps, y + begin * cols);
  });
}

void rms_norm(Threads& threads, const float* x, int64_t x_stride, int64_t rows, int64_t groups,
              int64_t cols, const float* weight, float eps, float* y, int64_t y_stride) {
  FOVEA_CHECK(cols > 0 && groups > 0);
  threads.for_each(rows, chunk_rows(groups * cols), [&](int64_t begin, int64_t end) {
    rms_norm_cpu(x + begin * x_stride, x_stride, end - begin, groups, cols, weight, eps,
                 y + begin * y_stride, y_stride);
  });
}

}  // namespace fovea
