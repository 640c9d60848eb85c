// SPDX-License-Identifier: Apache-2.0
#include "weights/resampler_checkpoint.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "base/text.h"
#include "weights/checked_tensor.h"

namespace fovea {
namespace {

constexpr const char* kProjection = "language_projection.weight";
constexpr int64_t kMaxTokenSize = 1 << 17;

// Where the parts lie: as published and as transformers saves them, or as it saves a model inside
// of another.
constexpr std::array kQFormerPrefixes = {"", "model."};
constexpr std::array kPerceiverPrefixes = {"model.connector.", "connector."};

class Names {
 public:
  void add(const std::string& name, Shape shape) { tensors_.push_back({name, shape}); }
  // A linear layer, or a layer norm where `in` is 0.
  void add_with_bias(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", in == 0 ? Shape{out} : Shape{out, in});
    add(name + ".bias", {out});
  }
  void add_attention(const std::string& name, int64_t hidden, int64_t states) {
    add_with_bias(name + ".attention.query", hidden, hidden);
    add_with_bias(name + ".attention.key", hidden, states);
    add_with_bias(name + ".attention.value", hidden, states);
    add_with_bias(name + ".output.dense", hidden, hidden);
    add_with_bias(name + ".output.LayerNorm", hidden, 0);
  }
  void add_gated(const std::string& name, int64_t in, int64_t inside, int64_t out) {
    add(name + ".gate_proj.weight", {inside, in});
    add(name + ".up_proj.weight", {inside, in});
    add(name + ".down_proj.weight", {out, inside});
  }
  std::vector<ExpectedTensor> take() { return std::move(tensors_); }

 private:
  std::vector<ExpectedTensor> tensors_;
};

std::vector<ExpectedTensor> tensors_of(const QFormerConfig& config) {
  const int64_t hidden = config.hidden_size;
  Names names;
  names.add("query_tokens", {1, config.queries, hidden});
  names.add_with_bias("qformer.layernorm", hidden, 0);
  for (int i = 0; i < config.num_layers; ++i) {
    const std::string layer = "qformer.encoder.layer." + std::to_string(i);
    names.add_attention(layer + ".attention", hidden, hidden);
    if (i % config.cross_every == 0)
      names.add_attention(layer + ".crossattention", hidden, config.state_size);
    names.add_with_bias(layer + ".intermediate_query.dense", config.intermediate_size, hidden);
    names.add_with_bias(layer + ".output_query.dense", hidden, config.intermediate_size);
    names.add_with_bias(layer + ".output_query.LayerNorm", hidden, 0);
  }
  names.add_with_bias("language_projection", config.token_size, hidden);
  return names.take();
}

std::vector<ExpectedTensor> tensors_of(const PerceiverConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t q_size = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
  Names names;
  names.add_gated("modality_projection", config.state_size, config.projection_size, hidden);
  names.add("perceiver_resampler.latents", {config.latents, hidden});
  for (int i = 0; i < config.num_layers; ++i) {
    const std::string layer = "perceiver_resampler.layers." + std::to_string(i);
    names.add(layer + ".input_latents_norm.weight", {hidden});
    names.add(layer + ".input_context_norm.weight", {hidden});
    names.add(layer + ".self_attn.q_proj.weight", {q_size, hidden});
    names.add(layer + ".self_attn.k_proj.weight", {kv_size, hidden});
    names.add(layer + ".self_attn.v_proj.weight", {kv_size, hidden});
    names.add(layer + ".self_attn.o_proj.weight", {hidden, q_size});
    names.add(layer + ".post_attention_layernorm.weight", {hidden});
    names.add_gated(layer + ".mlp", hidden, config.intermediate_size(), hidden);
  }
  names.add("perceiver_resampler.norm.weight", {hidden});
  return names.take();
}

// The first prefix under which `probe` is there; the published one where none is.
std::string find_prefix(const TensorSet& tensors, const std::array<const char*, 2>& prefixes,
                        const char* probe) {
  const bool second = !tensors.find(std::string(prefixes[0]) + probe) &&
                      tensors.find(std::string(prefixes[1]) + probe);
  return prefixes[second ? 1 : 0];
}

}  // namespace

std::vector<ExpectedTensor> resampler_tensors(const ResamplerConfig& config) {
  return std::visit([](const auto& form) { return tensors_of(form); }, config);
}

Result<ResamplerCheckpoint> ResamplerCheckpoint::open(const std::string& path) {
  const Result<ModelFolder> folder = ModelFolder::open(path);
  if (!folder) return folder.error();
  const auto in_folder = [&](const Error& error) {
    return Error{error.kind, fmt::format("cannot load {}: {}", in_quotes(path), error.message)};
  };
  const Result<ResamplerConfig> config = read_resampler_config(*folder);
  if (!config) return in_folder(config.error());
  Result<TensorSet> tensors = TensorSet::open(*folder);
  if (!tensors) return in_folder(tensors.error());
  ResamplerCheckpoint checkpoint(*config, *std::move(tensors));
  if (Status status = checkpoint.find_tensors(); !status) return in_folder(status.error());
  if (Status status = checkpoint.tensors_.intact(); !status) return status.error();
  return checkpoint;
}

// The language model may be of any kind, and calls its width by any name: the tensor says it.
Status ResamplerCheckpoint::find_token_size(const std::string& prefix) {
  auto& config = std::get<QFormerConfig>(config_);
  const std::optional<TensorView> tensor = tensors_.find(prefix + kProjection);
  if (!tensor)
    return bad_input(
        fmt::format("tensor {} is missing; give a checkpoint with a language model "
                    "(Blip2ForConditionalGeneration)",
                    in_quotes(prefix + kProjection)));
  const Shape& shape = tensor->shape;
  if (shape.rank != 2 || shape[0] < 1 || shape[0] > kMaxTokenSize || shape[1] != config.hidden_size)
    return bad_input(fmt::format("tensor {} has the shape {}; it must be [1 to {}, {}]",
                                 in_quotes(prefix + kProjection), shape.text(), kMaxTokenSize,
                                 config.hidden_size));
  config.token_size = static_cast<int>(shape[0]);
  return Done{};
}

Status ResamplerCheckpoint::find_tensors() {
  const bool is_qformer = std::holds_alternative<QFormerConfig>(config_);
  const std::string prefix =
      is_qformer ? find_prefix(tensors_, kQFormerPrefixes, "query_tokens")
                 : find_prefix(tensors_, kPerceiverPrefixes, "perceiver_resampler.latents");
  if (is_qformer)
    if (Status status = find_token_size(prefix); !status) return status;
  for (const ExpectedTensor& tensor : resampler_tensors(config_)) {
    const std::string name = prefix + tensor.name;
    const Result<TensorView> found = checked_tensor(tensors_.find(name), name, tensor.shape);
    if (!found) return found.error();
    source_bytes_ += static_cast<int64_t>(found->bytes);
    found_.emplace(tensor.name, *found);
  }
  return Done{};
}

TensorView ResamplerCheckpoint::tensor(std::string_view name) const {
  const auto found = found_.find(name);
  FOVEA_CHECK(found != found_.end());
  return found->second;
}

}  // namespace fovea
