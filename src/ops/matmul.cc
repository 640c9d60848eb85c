// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include "base/check.h"
#include "ops/matmul_cpu.h"

namespace fovea {
namespace {

bool is_int8(const Product& product) { return product.weights->format() == WeightFormat::kInt8; }

}  // namespace

void matmul(Threads& threads, const float* x, int64_t x_stride, int64_t m,
            std::span<const Product> products) {
  if (m == 0 || products.empty()) return;
  const int64_t k = products.front().weights->cols();
  for (const Product& product : products) FOVEA_CHECK(product.weights->cols() == k);
  const Input input{x, x_stride > 0 ? x_stride : k, m, k};
  // Products next to each other that go the same way share the packing of x and one loop.
  for (size_t begin = 0, end = 0; begin < products.size(); begin = end) {
    const bool int8 = is_int8(products[begin]);
    while (end < products.size() && is_int8(products[end]) == int8) ++end;
    const auto some = products.subspan(begin, end - begin);
    if (int8)
      matmul_int8(threads, input, some);
    else if (m <= kFewRows)
      matmul_dot(threads, input, some);
    else
      matmul_gemm(threads, input, some);
  }
}

}  // namespace fovea
