// SPDX-License-Identifier: Apache-2.0
#include "language/decoder_layer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/activation.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rope.h"

namespace fovea {
namespace {

const float* or_null(const Buffer<float>& bias) { return bias.empty() ? nullptr : bias.data(); }

float eps_of(const LayerCall& call) { return static_cast<float>(call.config.rms_norm_eps); }

// input = norm(hidden), for the rows from `first` on.
void norm_rows(const LayerCall& call, const Buffer<float>& weight, int64_t first) {
  const int64_t hidden = call.config.hidden_size;
  rms_norm(call.threads, call.scratch.hidden.data() + first * hidden, hidden, call.rows - first, 1,
           hidden, weight.data(), eps_of(call), call.scratch.input.data() + first * hidden, hidden);
}

// Norms and turns the heads of the rows from `first` on.
void turn_heads(const LayerCall& call, const Buffer<float>& norm, int heads, int64_t first,
                float* x) {
  const int head_dim = call.config.head_dim;
  const int64_t stride = int64_t{heads} * head_dim;
  const int64_t half = head_dim / 2;
  float* from = x + first * stride;
  rms_norm(call.threads, from, stride, call.rows - first, heads, head_dim, norm.data(),
           eps_of(call), from, stride);
  rotate(call.threads, from, stride, call.rows - first, heads, head_dim,
         call.scratch.cos.data() + first * half, call.scratch.sin.data() + first * half);
}

int64_t q_size(const TextConfig& config) { return int64_t{config.num_heads} * config.head_dim; }
int64_t kv_size(const TextConfig& config) { return int64_t{config.num_kv_heads} * config.head_dim; }

AttentionParams params_from(const LayerCall& call, const KeyValues& kv, int64_t row) {
  AttentionParams params;
  params.heads = call.config.num_heads;
  params.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(call.config.head_dim)));
  params.causal = true;
  params.first_query = kv.size() - call.rows + row;
  return params;
}

}  // namespace

void project(const LayerCall& call, KeyValues& kv) {
  const DecoderLayer& layer = call.layer;
  const int64_t q_stride = q_size(call.config);
  const int64_t kv_stride = kv_size(call.config);
  float* q = call.scratch.inner.data();
  float* k = q + call.rows * q_stride;
  float* v = k + call.rows * kv_stride;
  norm_rows(call, layer.input_norm, 0);
  const std::array<Product, 3> products = {
      Product{.weights = &layer.k, .bias = or_null(layer.k_bias), .y = k},
      Product{.weights = &layer.v, .bias = or_null(layer.v_bias), .y = v},
      Product{.weights = &layer.q,
              .bias = or_null(layer.q_bias),
              .y = q + call.first_query * q_stride}};
  const float* input = call.scratch.input.data();
  const bool all = call.first_query == 0;
  matmul(call.threads, input, 0, call.rows, {products.data(), all ? 3u : 2u});
  const int64_t queries = call.rows - call.first_query;
  if (!all && queries > 0)
    matmul(call.threads, input + call.first_query * call.config.hidden_size, queries, products[2]);
  if (queries > 0) turn_heads(call, layer.q_norm, call.config.num_heads, call.first_query, q);
  turn_heads(call, layer.k_norm, call.config.num_kv_heads, 0, k);
  kv.append(call.threads, k, kv_stride, v, kv_stride, call.rows);
}

void read_out(const LayerCall& call, const KeyValues& kv, int64_t first_token,
              AttentionReadout& readout) {
  const auto begin = std::max(static_cast<int64_t>(readout.query_begin), first_token);
  const auto end = std::min(static_cast<int64_t>(readout.query_end), first_token + call.rows);
  const int64_t key_end = std::min(readout.key_end, kv.size());
  if (begin >= end || readout.key_begin >= key_end) return;
  std::vector<float>& sum = readout.mass;
  std::vector<float> mass(static_cast<size_t>(key_end - readout.key_begin));
  const int64_t stride = q_size(call.config);
  const int64_t row = begin - first_token;
  attention_mass(call.threads, call.scratch.inner.data() + row * stride, stride, end - begin, kv,
                 params_from(call, kv, row), readout.key_begin, key_end, mass.data());
  const auto queries = static_cast<float>(readout.query_end - readout.query_begin);
  const float share =
      static_cast<float>(end - begin) / (queries * static_cast<float>(readout.layers.size()));
  for (size_t t = 0; t < mass.size(); ++t) sum[t] += mass[t] * share;
}

void attend(const LayerCall& call, const KeyValues& kv) {
  const int64_t first = call.first_output;
  const int64_t stride = q_size(call.config);
  const int64_t rows = call.rows - first;
  float* heads = call.scratch.input.data();
  attention(call.threads, call.scratch.inner.data() + first * stride, stride, rows, kv,
            params_from(call, kv, first), heads, stride);
  matmul(call.threads, heads, rows,
         {.weights = &call.layer.o,
          .bias = or_null(call.layer.o_bias),
          .y = call.scratch.hidden.data() + first * call.config.hidden_size,
          .accumulate = true});
}

void feed_forward(const LayerCall& call) {
  const int64_t first = call.first_output;
  const int64_t rows = call.rows - first;
  const int64_t hidden = call.config.hidden_size;
  const int64_t inner = call.config.intermediate_size;
  norm_rows(call, call.layer.attention_norm, first);
  float* gate = call.scratch.inner.data();
  float* up = gate + rows * inner;
  const std::array<Product, 2> products = {Product{.weights = &call.layer.gate, .y = gate},
                                           Product{.weights = &call.layer.up, .y = up}};
  matmul(call.threads, call.scratch.input.data() + first * hidden, 0, rows, products);
  silu_multiply(call.threads, gate, up, rows * inner);
  matmul(call.threads, gate, rows,
         {.weights = &call.layer.down,
          .y = call.scratch.hidden.data() + first * hidden,
          .accumulate = true});
}

}  // namespace fovea
