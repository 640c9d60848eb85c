// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/activation.h"
#include "ops/attention/attention.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "vision/layers.h"

namespace fovea {
namespace {

// The rows of one chunk.
struct Rows {
  int64_t first = 0;
  int64_t count = 0;
};

void norm_rows(Threads& threads, const TowerNorm& norm, const VisionConfig& config,
               const TowerWork& work, Rows rows, float* out) {
  layer_norm(threads, work.hidden.data() + rows.first * config.hidden_size, rows.count,
             config.hidden_size, norm.weight.data(), norm.bias.data(),
             static_cast<float>(config.layer_norm_eps), out);
}

// q, k, v = split(qkv(norm1(x))); q, k = rotate(q), rotate(k)
// The queries are kept, keys and values join those of earlier patches.
void make_queries_keys_values(Threads& threads, const TowerBlock& block, const BlockInput& input,
                              Rows rows, KeyValues& kv, TowerWork& work) {
  const int64_t hidden = input.config.hidden_size;
  const int64_t angle_row = rows.first * (input.config.head_dim / 2);
  float* qkv = work.wide.data();
  norm_rows(threads, block.norm1, input.config, work, rows, work.narrow.data());
  matmul(threads, work.narrow.data(), rows.count,
         {.weights = &block.qkv.weight, .bias = block.qkv.bias.data(), .y = qkv});
  // The heads of q and those of k lie side by side in a row and are rotated by the same angles.
  rotate(threads, qkv, 3 * hidden, rows.count, 2 * input.config.num_heads, input.config.head_dim,
         input.angles.cos.data() + angle_row, input.angles.sin.data() + angle_row);
  threads.for_each(rows.count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(work.queries.data() + (rows.first + r) * hidden, qkv + r * 3 * hidden,
                  static_cast<size_t>(hidden) * sizeof(float));
  });
  kv.append(threads, qkv + hidden, 3 * hidden, qkv + 2 * hidden, 3 * hidden, rows.count);
}

AttentionParams attention_params(const BlockInput& input) {
  return {.heads = input.config.num_heads,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(input.config.head_dim))),
          .key_bias = input.key_bias};
}

// softmax(q k^T / sqrt(head_dim) + size bias) v, for some rows
void attend(Threads& threads, const BlockInput& input, Rows rows, const KeyValues& kv,
            TowerWork& work) {
  const int64_t hidden = input.config.hidden_size;
  attention(threads, work.queries.data() + rows.first * hidden, hidden, rows.count, kv.view(),
            attention_params(input), work.narrow.data(), hidden);
}

// The same for all rows, with fewer keys, into the place of their queries.
void attend_sparsely(Threads& threads, const BlockInput& input, const KeyValues& kv,
                     TowerWork& work) {
  const int64_t hidden = input.config.hidden_size;
  const AttentionParams params = attention_params(input);
  const PagedKeys keys = kv.view();
  attend_by_kind(threads, {work.queries.data(), hidden, &keys, &params, input.rows, nullptr},
                 input.attention, work.queries.data(), hidden);
}

// x = x + proj(attended)
void add_projection(Threads& threads, const TowerBlock& block, const BlockInput& input, Rows rows,
                    const float* attended, TowerWork& work) {
  matmul(threads, attended, rows.count,
         {.weights = &block.proj.weight,
          .bias = block.proj.bias.data(),
          .y = work.hidden.data() + rows.first * input.config.hidden_size,
          .accumulate = true});
}

// x = x + fc2(gelu_tanh(fc1(norm2(x))))
void add_mlp(Threads& threads, const TowerBlock& block, const BlockInput& input, Rows rows,
             TowerWork& work) {
  norm_rows(threads, block.norm2, input.config, work, rows, work.narrow.data());
  matmul(threads, work.narrow.data(), rows.count,
         {.weights = &block.fc1.weight, .bias = block.fc1.bias.data(), .y = work.wide.data()});
  gelu_tanh(threads, work.wide.data(), rows.count * input.config.intermediate_size);
  matmul(threads, work.wide.data(), rows.count,
         {.weights = &block.fc2.weight,
          .bias = block.fc2.bias.data(),
          .y = work.hidden.data() + rows.first * input.config.hidden_size,
          .accumulate = true});
}

}  // namespace

// x = x + attention(norm1(x)); x = x + mlp(norm2(x))
void run_block(Threads& threads, const TowerBlock& block, const BlockInput& input, KeyValues& kv,
               TowerWork& work) {
  kv.reserve(kv.size() + work.patches);
  const auto each_chunk = [&work](const auto& body) {
    for (int64_t first = 0; first < work.patches; first += work.chunk)
      body(Rows{first, std::min(work.chunk, work.patches - first)});
  };
  each_chunk([&](Rows rows) { make_queries_keys_values(threads, block, input, rows, kv, work); });
  // From here on every key is known, so that a chunk goes through the rest of the block at once.
  const bool sparse = input.attention.kind != AttentionKind::kDense;
  if (sparse) attend_sparsely(threads, input, kv, work);
  each_chunk([&](Rows rows) {
    if (!sparse) attend(threads, input, rows, kv, work);
    const float* attended =
        sparse ? work.queries.data() + rows.first * input.config.hidden_size : work.narrow.data();
    add_projection(threads, block, input, rows, attended, work);
    add_mlp(threads, block, input, rows, work);
  });
}

}  // namespace fovea
