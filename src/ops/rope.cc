// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <algorithm>

#include "base/check.h"
#include "ops/rope_cpu.h"

namespace fovea {
namespace {

// What one thread does in some microseconds, less than waking another is worth.
constexpr int64_t kChunkValues = 16 * 1024;

}  // namespace

void rotate(Threads& threads, float* x, int64_t x_stride, int64_t rows, int heads, int head_dim,
            const float* cos, const float* sin) {
  FOVEA_CHECK(heads > 0 && head_dim > 0 && head_dim % 2 == 0);
  const int half = head_dim / 2;
  const int64_t chunk = std::max<int64_t>(1, kChunkValues / (int64_t{heads} * head_dim));
  threads.for_each(rows, chunk, [&](int64_t begin, int64_t end) {
    rotate_cpu(x + begin * x_stride, x_stride, end - begin, heads, head_dim, cos + begin * half,
               sin + begin * half);
  });
}

}  // namespace fovea
