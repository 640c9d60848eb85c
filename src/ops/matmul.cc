// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include "base/check.h"
#include "ops/matmul_cpu.h"

namespace fovea {
namespace {

// From here on transposing the weights first costs less than it saves.
constexpr int64_t kGemmRows = 24;

}  // namespace

void matmul(Threads& threads, const float* x, int64_t x_stride, int64_t m,
            std::span<const Product> products) {
  if (m == 0 || products.empty()) return;
  const int64_t k = products.front().weights->cols();
  for (const Product& product : products) FOVEA_CHECK(product.weights->cols() == k);
  const Input input{x, x_stride > 0 ? x_stride : k, m, k};
  for (const Product& product : products) {
    if (product.weights->format() != WeightFormat::kInt8) continue;
    matmul_reference(x, x_stride, m, products);
    return;
  }
  if (m < kGemmRows)
    matmul_dot(threads, input, products);
  else
    matmul_gemm(threads, input, products);
}

}  // namespace fovea
