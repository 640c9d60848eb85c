// SPDX-License-Identifier: Apache-2.0
#include "resample/perceiver.h"

#include <cmath>

#include "ops/activation.h"
#include "ops/attention/attention.h"
#include "ops/norm.h"

namespace fovea {
namespace {

// Values of the widest thing that is made of so many rows.
size_t wide_values(const PerceiverConfig& config, int64_t rows) {
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
  const int64_t inside = std::max(config.projection_size, config.intermediate_size());
  return static_cast<size_t>(2 * rows * std::max(kv_size, inside));
}

}  // namespace

// The memory of one run.
struct Perceiver::Work {
  Work(const PerceiverConfig& config, int64_t states)
      : chunk(std::min(std::max<int64_t>(states, config.latents), kStateChunk)),
        context(static_cast<size_t>(states) * config.hidden_size),
        latents(static_cast<size_t>(config.latents) * config.hidden_size),
        queries(static_cast<size_t>(config.latents) * config.num_heads * config.head_dim),
        attended(queries.size()),
        normed(static_cast<size_t>(chunk) * config.hidden_size),
        wide(wide_values(config, chunk)),
        kv(unbounded_pages(config.num_kv_heads, config.head_dim), config.num_kv_heads,
           config.head_dim) {}

  int64_t chunk = 0;       // rows that are worked on at a time, at most
  Buffer<float> context;   // [states][hidden_size]
  Buffer<float> latents;   // [latents][hidden_size]
  Buffer<float> queries;   // [latents][heads * head_dim]
  Buffer<float> attended;  // [latents][heads * head_dim]
  Buffer<float> normed;    // [chunk][hidden_size]
  Buffer<float> wide;      // keys and values of a chunk, or gate and up
  KeyValues kv;            // of the layer being worked on
};

Perceiver::Perceiver(const PerceiverConfig& config, WeightReader& reader)
    : config_(config),
      projection_(read_mlp(reader, "modality_projection")),
      latents_(reader.values("perceiver_resampler.latents")) {
  for (int i = 0; i < config.num_layers && !reader.error(); ++i) {
    const std::string name = "perceiver_resampler.layers." + std::to_string(i);
    layers_.push_back({reader.norm(name + ".input_latents_norm", false),
                       reader.norm(name + ".input_context_norm", false),
                       reader.linear(name + ".self_attn.q_proj", false),
                       reader.linear(name + ".self_attn.k_proj", false),
                       reader.linear(name + ".self_attn.v_proj", false),
                       reader.linear(name + ".self_attn.o_proj", false),
                       reader.norm(name + ".post_attention_layernorm", false),
                       read_mlp(reader, name + ".mlp")});
  }
  last_norm_ = reader.norm("perceiver_resampler.norm", false);
}

Perceiver::GatedMlp Perceiver::read_mlp(WeightReader& reader, const std::string& name) {
  return {reader.linear(name + ".gate_proj", false), reader.linear(name + ".up_proj", false),
          reader.linear(name + ".down_proj", false)};
}

void Perceiver::norm(Threads& threads, const CrossNorm& norm, StateRows x, float* y) const {
  const int64_t size = config_.hidden_size;
  rms_norm(threads, x.values, size, x.count, 1, size, norm.weight.data(),
           static_cast<float>(config_.rms_norm_eps), y, size);
}

// y = down(silu(gate(x)) * up(x)), or y += that; at most a chunk of rows
void Perceiver::apply_mlp(Threads& threads, const GatedMlp& mlp, StateRows x, Work& work, float* y,
                          bool add) {
  const int64_t values = x.count * mlp.gate.out();
  float* gate = work.wide.data();
  float* up = gate + values;
  apply(threads, mlp.gate, x, gate);
  apply(threads, mlp.up, x, up);
  silu_multiply(threads, gate, up, values);
  apply(threads, mlp.down, {gate, x.count}, y, add);
}

// s = [context_norm(context), latents_norm(x)]
// x = x + out(softmax(query(latents_norm(x)) key(s)^T / sqrt(head_dim)) value(s))
void Perceiver::attend(Threads& threads, const Layer& layer, StateRows context, Work& work) const {
  const int64_t size = config_.hidden_size;
  const StateRows latents{work.latents.data(), config_.latents};
  work.kv.truncate(0);
  work.kv.reserve(context.count + latents.count);
  each_chunk(context, size, [&](StateRows chunk, int64_t /*first*/) {
    norm(threads, layer.context_norm, chunk, work.normed.data());
    append_keys(threads, layer.key, layer.value, {work.normed.data(), chunk.count}, work.wide,
                work.kv);
  });
  const int64_t q_size = layer.query.out();
  each_chunk(latents, size, [&](StateRows chunk, int64_t first) {
    norm(threads, layer.latents_norm, chunk, work.normed.data());
    const StateRows normed{work.normed.data(), chunk.count};
    apply(threads, layer.query, normed, work.queries.data() + first * q_size);
    append_keys(threads, layer.key, layer.value, normed, work.wide, work.kv);
  });
  const AttentionParams params{
      .heads = config_.num_heads,
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)))};
  attention(threads, work.queries.data(), q_size, latents.count, work.kv.view(), params,
            work.attended.data(), q_size);
  apply(threads, layer.out, {work.attended.data(), latents.count}, work.latents.data(), true);
}

Buffer<float> Perceiver::run(Threads& threads, StateRows states,
                             const ResampleOptions& options) const {
  const int64_t size = config_.hidden_size;
  Work work(config_, states.count);
  const StateRows context{work.context.data(), states.count};
  const StateRows latents{work.latents.data(), config_.latents};
  // context = modality_projection(states)
  each_chunk(states, config_.state_size, [&](StateRows chunk, int64_t first) {
    apply_mlp(threads, projection_, chunk, work, work.context.data() + first * size, false);
  });
  std::copy(latents_.begin(), latents_.end(), work.latents.begin());
  for (size_t i = 0; i < layers_.size(); ++i) {
    attend(threads, layers_[i], context, work);
    // x = x + mlp(norm(x))
    each_chunk(latents, size, [&](StateRows chunk, int64_t first) {
      norm(threads, layers_[i].norm, chunk, work.normed.data());
      apply_mlp(threads, layers_[i].mlp, {work.normed.data(), chunk.count}, work,
                work.latents.data() + first * size, true);
    });
    if (options.on_layer) options.on_layer(static_cast<int>(i), work.latents.data());
  }
  Buffer<float> tokens(work.latents.size());
  norm(threads, last_norm_, latents, tokens.data());
  return tokens;
}

size_t Perceiver::Layer::bytes() const {
  return latents_norm.bytes() + context_norm.bytes() + query.bytes() + key.bytes() + value.bytes() +
         out.bytes() + norm.bytes() + mlp.bytes();
}

size_t Perceiver::bytes() const {
  size_t bytes = projection_.bytes() + latents_.size() * sizeof(float) + last_norm_.bytes();
  for (const Layer& layer : layers_) bytes += layer.bytes();
  return bytes;
}

}  // namespace fovea
