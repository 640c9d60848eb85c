// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/eight/attention_eight.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "ops/attention/eight/eight_bits.h"

namespace fovea {

void spread_head(float* x, int head_dim) {
  FOVEA_CHECK(head_dim > 0 && (head_dim & (head_dim - 1)) == 0);
  for (int width = 1; width < head_dim; width *= 2)
    for (int first = 0; first < head_dim; first += 2 * width)
      for (int i = first; i < first + width; ++i) {
        const float a = x[i];
        const float b = x[i + width];
        x[i] = a + b;
        x[i + width] = a - b;
      }
  const float root = 1 / std::sqrt(static_cast<float>(head_dim));
  for (int i = 0; i < head_dim; ++i) x[i] *= root;
}

void round_to_eight(float* x, int64_t stride, int64_t rows, int heads, int head_dim, bool spread,
                    bool per_head) {
  std::vector<float> largest(static_cast<size_t>(heads));
  for (int64_t row = 0; row < rows; ++row)
    for (int head = 0; head < heads; ++head) {
      float* values = x + row * stride + head * head_dim;
      if (spread) spread_head(values, head_dim);
      float& most = largest[static_cast<size_t>(per_head ? head : 0)];
      for (int i = 0; i < head_dim; ++i) most = std::max(most, std::abs(values[i]));
    }
  for (int64_t row = 0; row < rows; ++row)
    for (int head = 0; head < heads; ++head) {
      const float most = largest[static_cast<size_t>(per_head ? head : 0)];
      const float by = most > 0 ? kLargestEight / most : 0;
      float* values = x + row * stride + head * head_dim;
      for (int i = 0; i < head_dim; ++i)
        values[i] = of_eight(to_eight(values[i] * by)) * (most / kLargestEight);
    }
}

EightOptions eight_options(int head_dim) {
  return {.spread = std::has_single_bit(static_cast<unsigned>(head_dim)), .per_head = true};
}

namespace {

// The same by threads: heads that have a scale each do not know of each other.
void round_by_threads(Threads& threads, float* x, int64_t stride, int64_t rows, int heads,
                      int head_dim, bool spread, bool per_head) {
  if (!per_head) return round_to_eight(x, stride, rows, heads, head_dim, spread, per_head);
  threads.for_each(heads, 1, [&](int64_t begin, int64_t end) {
    round_to_eight(x + begin * head_dim, stride, rows, static_cast<int>(end - begin), head_dim,
                   spread, per_head);
  });
}

}  // namespace

void attention_eight(Threads& threads, const float* q, int64_t q_stride, int64_t queries,
                     const PagedKeys& kv, const AttentionParams& params,
                     const EightOptions& options, float* out, int64_t out_stride) {
  FOVEA_CHECK(kv.format == KeyFormat::kF32);
  const int dim = kv.head_dim;
  const int64_t width = int64_t{params.heads} * dim;
  Buffer<float> rounded(static_cast<size_t>(queries * width));
  for (int64_t row = 0; row < queries; ++row)
    std::copy_n(q + row * q_stride, width, rounded.data() + row * width);
  round_by_threads(threads, rounded.data(), width, queries, params.heads, dim, options.spread,
                   options.per_head);

  Buffer<float> page(static_cast<size_t>(page_values(kv.kv_heads, dim, kv.size)));
  const float* const pages[] = {page.data()};
  const PagedKeys kept{.pages = pages,
                       .size = kv.size,
                       .kv_heads = kv.kv_heads,
                       .head_dim = dim,
                       .page_tokens = static_cast<int>(kv.size)};
  // Keys and values of a row side by side, as round_to_eight takes them, and back into the page.
  const int64_t kv_width = int64_t{kv.kv_heads} * dim;
  Buffer<float> rows(static_cast<size_t>(kv.size * kv_width));
  for (const bool is_key : {true, false}) {
    const auto each = [&](const auto& copy) {
      for (int64_t row = 0; row < kv.size; ++row)
        for (int head = 0; head < kv.kv_heads; ++head)
          copy(rows.data() + row * kv_width + head * dim, head, row);
    };
    each([&](float* to, int head, int64_t row) {
      std::copy_n(is_key ? kv.key(head, row) : kv.value(head, row), dim, to);
    });
    round_by_threads(threads, rows.data(), kv_width, kv.size, kv.kv_heads, dim,
                     is_key && options.spread, options.per_head);
    each([&](const float* from, int head, int64_t row) {
      const int64_t at = kept.head_at(head) + (is_key ? 0 : kept.value_after_key()) + row * dim;
      std::copy_n(from, dim, page.data() + at);
    });
  }
  attention(threads, rounded.data(), width, queries, kept, params, out, out_stride);
}

int64_t attention_eight_bytes(int64_t queries, int64_t keys, int64_t q_width, int64_t kv_width) {
  return (queries * q_width + 3 * keys * kv_width) * static_cast<int64_t>(sizeof(float));
}

}  // namespace fovea
