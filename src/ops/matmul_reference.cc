// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "ops/matmul.h"

namespace fovea {

void matmul_reference(const float* x, int64_t x_stride, int64_t m,
                      std::span<const Product> products) {
  for (const Product& product : products) {
    const int64_t n = product.weights->rows();
    const int64_t k = product.weights->cols();
    const int64_t step_x = x_stride > 0 ? x_stride : k;
    const int64_t step_y = product.y_stride > 0 ? product.y_stride : n;
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t j = 0; j < n; ++j) {
      product.weights->row(j, row.data());
      for (int64_t i = 0; i < m; ++i) {
        double sum = product.bias != nullptr ? product.bias[j] : 0;
        for (int64_t c = 0; c < k; ++c)
          sum += static_cast<double>(x[i * step_x + c]) * row[static_cast<size_t>(c)];
        float& y = product.y[i * step_y + j];
        y = static_cast<float>(product.accumulate ? y + sum : sum);
      }
    }
  }
}

}  // namespace fovea
