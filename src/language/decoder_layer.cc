// SPDX-License-Identifier: Apache-2.0
#include "language/decoder_layer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
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

// Norms and rotates the heads of the rows from `first` on.
void rotate_heads(const LayerCall& call, const Buffer<float>& norm, int heads, int64_t first,
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
  params.key_bias = kv.bias();
  return params;
}

// Where they lie, [rows] each.
struct HeadRows {
  float* q;
  float* k;
  float* v;
};

HeadRows head_rows(const LayerCall& call) {
  float* q = call.scratch.inner.data();
  float* k = q + call.rows * q_size(call.config);
  return {q, k, k + call.rows * kv_size(call.config)};
}

void project_rows(const LayerCall& call) {
  const DecoderLayer& layer = call.layer;
  const int64_t q_stride = q_size(call.config);
  const auto [q, k, v] = head_rows(call);
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
  if (queries > 0) rotate_heads(call, layer.q_norm, call.config.num_heads, call.first_query, q);
  rotate_heads(call, layer.k_norm, call.config.num_kv_heads, 0, k);
}

// hidden += Wo input, for the rows from first_output on, whose inputs lie from the first on.
void add_attended(const LayerCall& call) {
  matmul(call.threads, call.scratch.input.data(), call.rows - call.first_output,
         {.weights = &call.layer.o,
          .bias = or_null(call.layer.o_bias),
          .y = call.scratch.hidden.data() + call.first_output * call.config.hidden_size,
          .accumulate = true});
}

// Rows of a chunk.
struct QueryRows {
  int64_t first = 0;
  int64_t count = 0;
};

// sum += what these queries attend to, by this layer's share of all that are read out and `share`.
void add_mass(const LayerCall& call, const KeyValues& kv, const AttentionParams& params,
              const QueryRows& rows, float share, const AttentionReadout& readout,
              std::vector<float>& sum) {
  const int64_t key_end = std::min(readout.key_end, kv.size());
  if (readout.key_begin >= key_end) return;
  std::vector<float> mass(static_cast<size_t>(key_end - readout.key_begin));
  const int64_t stride = q_size(call.config);
  attention_mass(call.threads, call.scratch.inner.data() + rows.first * stride, stride, rows.count,
                 kv.view(), params, readout.key_begin, key_end, mass.data());
  const float part = share / static_cast<float>(readout.layers.size());
  for (size_t t = 0; t < mass.size(); ++t) sum[t] += mass[t] * part;
}

// Those that give at least the mean count, alike, so that their sum is the number of all.
void choose_raters(std::span<const float> given, float* parts) {
  double mean = 0;
  for (const float one : given) mean += one / static_cast<double>(given.size());
  const auto counts = [&](float one) { return one >= mean || given.size() == 1; };
  const auto raters = std::count_if(given.begin(), given.end(), counts);
  for (size_t i = 0; i < given.size(); ++i)
    parts[i] = raters == 0        ? 1.0f
               : counts(given[i]) ? static_cast<float>(given.size()) / static_cast<float>(raters)
                                  : 0.0f;
}

// out = attention of these queries to the keys that they see.
void attend_rows(const LayerCall& call, const KeyValues& kv, const LayerAttention& how,
                 const QueryRows& rows, const AttentionParams& params, float* out) {
  const int64_t stride = q_size(call.config);
  const PagedKeys keys = kv.view();
  const float* q = call.scratch.inner.data() + rows.first * stride;
  if (how.settings.kind == AttentionKind::kDense)
    return attention(call.threads, q, stride, rows.count, keys, params, out, stride);
  FOVEA_CHECK(keys.format == KeyFormat::kF32);
  attend_to_tokens(call.threads, {q, stride, rows.count, &keys, &params, how.images}, how.settings,
                   out, stride);
}

void grow(Buffer<float>& buffer, int64_t count) {
  if (buffer.size() < static_cast<size_t>(count))
    buffer = Buffer<float>(static_cast<size_t>(count));
}

}  // namespace

void prepare_scratch(const TextConfig& config, int64_t rows, DecoderScratch& scratch) {
  grow(scratch.hidden, rows * config.hidden_size);
  grow(scratch.input, rows * std::max<int64_t>(config.hidden_size, q_size(config)));
  grow(scratch.inner, rows * std::max<int64_t>(q_size(config) + 2 * kv_size(config),
                                               2 * config.intermediate_size));
  grow(scratch.cos, rows * (config.head_dim / 2));
  grow(scratch.sin, rows * (config.head_dim / 2));
}

void project(const LayerCall& call, KeyValues& kv) {
  project_rows(call);
  const auto [q, k, v] = head_rows(call);
  const int64_t stride = kv_size(call.config);
  kv.append(call.threads, k, stride, v, stride, call.rows);
}

void project(const LayerCall& call, std::span<KeyValues* const> kvs) {
  project_rows(call);
  const auto [q, k, v] = head_rows(call);
  const int64_t stride = kv_size(call.config);
  for (size_t i = 0; i < kvs.size(); ++i) {
    const auto row = static_cast<int64_t>(i) * stride;
    kvs[i]->append(k + row, stride, v + row, stride, 1);
  }
}

void read_out(const LayerCall& call, const KeyValues& kv, int64_t first_token,
              AttentionReadout& readout) {
  const auto asked_end = static_cast<int64_t>(readout.query_end);
  const auto begin = std::max(static_cast<int64_t>(readout.query_begin), first_token);
  const auto end = std::min(asked_end, first_token + call.rows);
  if (begin >= end) return;
  const auto queries = static_cast<float>(readout.query_end - readout.query_begin);
  const int64_t row = begin - first_token;
  add_mass(call, kv, params_from(call, kv, row), {row, end - begin},
           static_cast<float>(end - begin) / queries, readout, readout.mass);
  if (!readout.wants_last || end < asked_end) return;
  const int64_t last = end - 1 - first_token;
  add_mass(call, kv, params_from(call, kv, last), {last, 1}, 1, readout, readout.last_mass);
}

void read_keys(const LayerCall& call, const KeyValues& kv, int64_t first_token, int layer,
               int64_t missing, KeyReadout& readout) {
  const auto all_begin = static_cast<int64_t>(readout.query_begin);
  const auto begin = std::max(all_begin, first_token);
  const auto end = std::min(static_cast<int64_t>(readout.query_end), first_token + call.rows);
  if (begin >= end) return;
  KeyReadout::Layer& result = readout.layers[static_cast<size_t>(layer)];
  const size_t keys = result.mass.size();
  const int64_t stride = q_size(call.config);
  const int64_t row = begin - first_token;
  float* const parts = readout.query_parts.data() + (begin - all_begin);
  std::vector<float> mass(keys);
  std::vector<float> standing_out(keys);
  const auto weigh = [&](const MassDetail& detail) {
    attention_mass(call.threads, call.scratch.inner.data() + row * stride, stride, end - begin,
                   kv.view(), params_from(call, kv, row), readout.key_begin - missing,
                   readout.key_end - missing, mass.data(), detail);
  };
  if (readout.by_raters && layer == 0) {
    std::vector<float> given(static_cast<size_t>(end - begin));
    weigh({.given = given.data()});
    choose_raters(given, parts);
  }
  weigh({.query_parts = parts, .standing_out = standing_out.data()});
  const float share =
      static_cast<float>(end - begin) / static_cast<float>(readout.query_end - readout.query_begin);
  for (size_t t = 0; t < keys; ++t) result.mass[t] += mass[t] * share;
  for (const float part : standing_out) result.density += part * share / static_cast<float>(keys);
}

void read_out_step(const LayerCall& call, const KeyValues& kv, int64_t row,
                   AttentionReadout& readout) {
  AttentionParams params = params_from(call, kv, 0);
  params.first_query = kv.size() - 1;
  add_mass(call, kv, params, {row, 1}, 1, readout, readout.mass);
  if (readout.wants_last) readout.last_mass = readout.mass;
}

LayerAttention attention_of(const ForwardOptions& options, int layer, const TextConfig& config) {
  return {options.attention.of(layer, config.num_layers), options.images};
}

void attend(const LayerCall& call, const KeyValues& kv, const LayerAttention& how) {
  const int64_t first = call.first_output;
  attend_rows(call, kv, how, {first, call.rows - first}, params_from(call, kv, first),
              call.scratch.input.data());
  add_attended(call);
}

// Short sequences are shared out, one to a thread. Where one has more than half a thread's share of
// all keys, all threads work on it.
void attend(const LayerCall& call, std::span<KeyValues* const> kvs,
            std::span<const LayerAttention> how) {
  const int64_t stride = q_size(call.config);
  const auto one = [&](int64_t row) {
    const KeyValues& kv = *kvs[static_cast<size_t>(row)];
    AttentionParams params = params_from(call, kv, 0);
    params.first_query = kv.size() - 1;
    attend_rows(call, kv, how[static_cast<size_t>(row)], {row, 1}, params,
                call.scratch.input.data() + row * stride);
  };
  int64_t keys = 0;
  for (const KeyValues* kv : kvs) keys += kv->size();
  const auto is_long = [&](int64_t row) {
    return kvs[static_cast<size_t>(row)]->size() * 2 * call.threads.size() > keys;
  };
  for (int64_t row = 0; row < call.rows; ++row)
    if (is_long(row)) one(row);
  call.threads.for_each(call.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      if (!is_long(row)) one(row);
  });
  add_attended(call);
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

void write_logits(Threads& threads, const TextConfig& config, const DecoderWeights& weights,
                  DecoderScratch& scratch, int64_t first, int64_t rows, float* logits) {
  const int64_t width = config.hidden_size;
  rms_norm(threads, scratch.hidden.data() + first * width, width, rows, 1, width,
           weights.norm.data(), static_cast<float>(config.rms_norm_eps), scratch.input.data(),
           width);
  matmul(threads, scratch.input.data(), rows, {.weights = &weights.head(), .y = logits});
}

}  // namespace fovea
