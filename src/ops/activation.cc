// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include "ops/activation_cpu.h"

namespace fovea {
namespace {

// What one thread does in some microseconds, less than waking another is worth.
constexpr int64_t kChunk = 16 * 1024;

}  // namespace

void gelu_tanh(Threads& threads, float* x, int64_t count) {
  threads.for_each(count, kChunk,
                   [&](int64_t begin, int64_t end) { gelu_tanh_cpu(x + begin, end - begin); });
}

void gelu(Threads& threads, float* x, int64_t count) {
  threads.for_each(count, kChunk,
                   [&](int64_t begin, int64_t end) { gelu_cpu(x + begin, end - begin); });
}

void silu_multiply(Threads& threads, float* gate, const float* up, int64_t count) {
  threads.for_each(count, kChunk, [&](int64_t begin, int64_t end) {
    silu_multiply_cpu(gate + begin, up + begin, end - begin);
  });
}

void add(Threads& threads, float* x, const float* y, int64_t count) {
  threads.for_each(count, kChunk,
                   [&](int64_t begin, int64_t end) { add_cpu(x + begin, y + begin, end - begin); });
}

}  // namespace fovea
