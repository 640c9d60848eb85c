// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include <vector>

#include "base/check.h"

namespace fovea {

void matmul(Threads& threads, const float* x, int64_t x_stride, int64_t m,
            std::span<const Product> products) {
  for (const Product& product : products) {
    const int64_t n = product.weights->rows();
    const int64_t k = product.weights->cols();
    const int64_t step_x = x_stride > 0 ? x_stride : k;
    const int64_t step_y = product.y_stride > 0 ? product.y_stride : n;
    threads.for_each(n, 16, [&](int64_t begin, int64_t end) {
      std::vector<float> row(static_cast<size_t>(k));
      for (int64_t j = begin; j < end; ++j) {
        product.weights->row(j, row.data());
        for (int64_t i = 0; i < m; ++i) {
          float sum = product.bias != nullptr ? product.bias[j] : 0;
          for (int64_t c = 0; c < k; ++c) sum += x[i * step_x + c] * row[static_cast<size_t>(c)];
          float& y = product.y[i * step_y + j];
          y = product.accumulate ? y + sum : sum;
        }
      }
    });
  }
}

}  // namespace fovea
