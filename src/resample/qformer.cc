// SPDX-License-Identifier: Apache-2.0
#include "resample/qformer.h"

#include <cmath>

#include "ops/activation.h"
#include "ops/attention/attention.h"
#include "ops/norm.h"

namespace fovea {

// The memory of one run.
struct QFormer::Work {
  Work(const QFormerConfig& config, int64_t states)
      : hidden(static_cast<size_t>(config.queries) * config.hidden_size),
        queries(hidden.size()),
        attended(hidden.size()),
        wide(static_cast<size_t>(
            std::max(2 * config.hidden_size *
                         std::min(std::max<int64_t>(states, config.queries), kStateChunk),
                     int64_t{config.queries} * config.intermediate_size))),
        kv(unbounded_pages(config.num_heads, config.head_dim), config.num_heads, config.head_dim) {}

  Buffer<float> hidden;    // [queries][hidden_size]
  Buffer<float> queries;   // [queries][hidden_size]
  Buffer<float> attended;  // [queries][hidden_size]
  Buffer<float> wide;      // keys and values of a chunk, or what is inside the MLP
  KeyValues kv;            // of the layer being worked on
};

QFormer::QFormer(const QFormerConfig& config, WeightReader& reader)
    : config_(config),
      queries_(reader.values("query_tokens")),
      first_norm_(reader.norm("qformer.layernorm", true)) {
  for (int i = 0; i < config.num_layers && !reader.error(); ++i) {
    const std::string name = "qformer.encoder.layer." + std::to_string(i);
    Layer& layer = layers_.emplace_back();
    layer.self = read_attention(reader, name + ".attention");
    if (i % config.cross_every == 0) layer.cross = read_attention(reader, name + ".crossattention");
    layer.fc1 = reader.linear(name + ".intermediate_query.dense", true);
    layer.fc2 = reader.linear(name + ".output_query.dense", true);
    layer.norm = reader.norm(name + ".output_query.LayerNorm", true);
  }
  projection_ = reader.linear("language_projection", true);
}

QFormer::Attention QFormer::read_attention(WeightReader& reader, const std::string& name) {
  return {
      reader.linear(name + ".attention.query", true), reader.linear(name + ".attention.key", true),
      reader.linear(name + ".attention.value", true), reader.linear(name + ".output.dense", true),
      reader.norm(name + ".output.LayerNorm", true)};
}

void QFormer::norm(Threads& threads, const CrossNorm& norm, const float* x, float* y) const {
  layer_norm(threads, x, config_.queries, config_.hidden_size, norm.weight.data(), norm.bias.data(),
             static_cast<float>(config_.layer_norm_eps), y);
}

// x = norm(x + dense(softmax(query(x) key(s)^T / sqrt(head_dim)) value(s))), s the rows `to`
void QFormer::attend(Threads& threads, const Attention& attention, StateRows to, int64_t to_width,
                     Work& work) const {
  const int64_t hidden = config_.hidden_size;
  const int64_t rows = config_.queries;
  apply(threads, attention.query, {work.hidden.data(), rows}, work.queries.data());
  work.kv.truncate(0);
  work.kv.reserve(to.count);
  each_chunk(to, to_width, [&](StateRows chunk, int64_t /*first*/) {
    append_keys(threads, attention.key, attention.value, chunk, work.wide, work.kv);
  });
  const AttentionParams params{
      .heads = config_.num_heads,
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)))};
  fovea::attention(threads, work.queries.data(), hidden, rows, work.kv.view(), params,
                   work.attended.data(), hidden);
  apply(threads, attention.dense, {work.attended.data(), rows}, work.hidden.data(), true);
  norm(threads, attention.norm, work.hidden.data(), work.hidden.data());
}

// x = norm(x + fc2(gelu(fc1(x))))
void QFormer::add_mlp(Threads& threads, const Layer& layer, Work& work) const {
  const int64_t rows = config_.queries;
  apply(threads, layer.fc1, {work.hidden.data(), rows}, work.wide.data());
  gelu(threads, work.wide.data(), rows * config_.intermediate_size);
  apply(threads, layer.fc2, {work.wide.data(), rows}, work.hidden.data(), true);
  norm(threads, layer.norm, work.hidden.data(), work.hidden.data());
}

Buffer<float> QFormer::run(Threads& threads, StateRows states,
                           const ResampleOptions& options) const {
  Work work(config_, states.count);
  const StateRows queries{work.hidden.data(), config_.queries};
  // x = norm(query_tokens)
  norm(threads, first_norm_, queries_.data(), work.hidden.data());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    attend(threads, layer.self, queries, config_.hidden_size, work);
    if (layer.cross) attend(threads, *layer.cross, states, config_.state_size, work);
    add_mlp(threads, layer, work);
    if (options.on_layer) options.on_layer(static_cast<int>(i), work.hidden.data());
  }
  // tokens = language_projection(x)
  Buffer<float> tokens(static_cast<size_t>(config_.queries) * config_.token_size);
  apply(threads, projection_, queries, tokens.data());
  return tokens;
}

size_t QFormer::Attention::bytes() const {
  return query.bytes() + key.bytes() + value.bytes() + dense.bytes() + norm.bytes();
}

size_t QFormer::Layer::bytes() const {
  return self.bytes() + (cross ? cross->bytes() : 0) + fc1.bytes() + fc2.bytes() + norm.bytes();
}

size_t QFormer::bytes() const {
  size_t bytes = queries_.size() * sizeof(float) + first_norm_.bytes() + projection_.bytes();
  for (const Layer& layer : layers_) bytes += layer.bytes();
  return bytes;
}

}  // namespace fovea
