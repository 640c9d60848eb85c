// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

namespace fovea {
namespace {

constexpr int64_t kChunk = 4096;

}  // namespace

void gelu_tanh(Threads& threads, float* x, int64_t count) {
  threads.for_each(count, kChunk, [&](int64_t begin, int64_t end) {
    gelu_tanh_reference(x + begin, end - begin);
  });
}

void gelu(Threads& threads, float* x, int64_t count) {
  threads.for_each(count, kChunk,
                   [&](int64_t begin, int64_t end) { gelu_reference(x + begin, end - begin); });
}

void silu_multiply(Threads& threads, float* gate, const float* up, int64_t count) {
  threads.for_each(count, kChunk, [&](int64_t begin, int64_t end) {
    silu_multiply_reference(gate + begin, up + begin, end - begin);
  });
}

void add(Threads& threads, float* x, const float* y, int64_t count) {
  threads.for_each(count, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] += y[i];
  });
}

}  // namespace fovea
