// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

namespace fovea {

void rotate(Threads& threads, float* x, int64_t x_stride, int64_t rows, int heads, int head_dim,
            const float* cos, const float* sin) {
  const int half = head_dim / 2;
  threads.for_each(rows, 16, [&](int64_t begin, int64_t end) {
    rotate_reference(x + begin * x_stride, x_stride, end - begin, heads, head_dim,
                     cos + begin * half, sin + begin * half);
  });
}

}  // namespace fovea
