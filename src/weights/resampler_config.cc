// SPDX-License-Identifier: Apache-2.0
#include "weights/resampler_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "weights/json_fields.h"

namespace fovea {
namespace {

// No model comes near these; with them no product of sizes overflows.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 256;  // of attention()
constexpr int64_t kMaxSize = 1 << 17;
constexpr int64_t kMaxTokens = 1 << 16;
constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr double kLeastEps = 1e-15;
constexpr double kMostEps = 0.1;

int size_in(JsonFields& fields, const char* key, int64_t most, int64_t otherwise) {
  return static_cast<int>(fields.integer(key, 1, most, otherwise));
}

void check_head_dim(JsonFields& fields, const char* key, int head_dim) {
  if (head_dim % 4 != 0 || head_dim > kMaxHeadDim)
    fields.refuse(key,
                  fmt::format("makes heads of {} values; they must be a multiple of 4, up to {}",
                              head_dim, kMaxHeadDim));
}

QFormerConfig read_qformer(JsonFields& outer) {
  QFormerConfig config;
  config.queries = size_in(outer, "num_query_tokens", kMaxTokens, 32);
  // transformers' rule: whatever qformer_config.encoder_hidden_size says.
  JsonFields vision = outer.object("vision_config", false);
  config.state_size = size_in(vision, "hidden_size", kMaxSize, 1408);
  JsonFields fields = outer.object("qformer_config", false);
  config.hidden_size = size_in(fields, "hidden_size", kMaxSize, 768);
  config.intermediate_size = size_in(fields, "intermediate_size", kMaxSize, 3072);
  config.num_layers = size_in(fields, "num_hidden_layers", kMaxLayers, 12);
  config.num_heads = size_in(fields, "num_attention_heads", kMaxHeads, 12);
  config.cross_every = size_in(fields, "cross_attention_frequency", kMaxLayers, 2);
  config.layer_norm_eps = fields.real("layer_norm_eps", kLeastEps, kMostEps, 1e-12);
  fields.require("hidden_act", "gelu");
  if (config.hidden_size % config.num_heads != 0)
    fields.refuse("hidden_size",
                  fmt::format("is {}, which num_attention_heads = {} does not divide",
                              config.hidden_size, config.num_heads));
  config.head_dim = config.hidden_size / config.num_heads;
  check_head_dim(fields, "hidden_size", config.head_dim);
  return config;
}

PerceiverConfig read_perceiver(JsonFields& outer) {
  PerceiverConfig config;
  JsonFields vision = outer.object("vision_config", false);
  config.state_size = size_in(vision, "hidden_size", kMaxSize, 768);
  JsonFields text = outer.object("text_config", false);
  config.projection_size = size_in(text, "intermediate_size", kMaxSize, 14'336);
  const int text_size = size_in(text, "hidden_size", kMaxSize, 4096);
  // Mistral's own default, and Idefics2's where there is no text_config at all.
  const double text_eps =
      text.real("rms_norm_eps", kLeastEps, kMostEps, outer.has("text_config") ? 1e-6 : 1e-5);
  text.require("hidden_act", "silu");
  JsonFields fields = outer.object("perceiver_config", false);
  config.hidden_size = size_in(fields, "hidden_size", kMaxSize, 4096);
  config.rms_norm_eps = fields.real("rms_norm_eps", kLeastEps, kMostEps, 1e-6);
  // transformers' rule: another width than the language model's was a default.
  if (config.hidden_size != text_size) {
    config.hidden_size = text_size;
    config.rms_norm_eps = text_eps;
  }
  config.latents = size_in(fields, "resampler_n_latents", kMaxTokens, 64);
  config.num_layers = size_in(fields, "resampler_depth", kMaxLayers, 3);
  config.num_heads = size_in(fields, "resampler_n_heads", kMaxHeads, 16);
  config.num_kv_heads = size_in(fields, "num_key_value_heads", kMaxHeads, 4);
  config.head_dim = size_in(fields, "resampler_head_dim", kMaxSize, 96);
  check_head_dim(fields, "resampler_head_dim", config.head_dim);
  if (config.num_heads % config.num_kv_heads != 0)
    fields.refuse("resampler_n_heads",
                  fmt::format("is {}, which num_key_value_heads = {} does not divide",
                              config.num_heads, config.num_kv_heads));
  fields.require("hidden_act", "silu");
  return config;
}

}  // namespace

Result<ResamplerConfig> parse_resampler_config(std::string_view config) {
  const auto json = parse_settings("config.json", config);
  if (!json) return json.error();
  JsonFields fields("config.json", *json);
  const std::string type = fields.string("model_type", "");
  ResamplerConfig parsed;
  if (type == "blip-2")
    parsed = read_qformer(fields);
  else if (type == "idefics2")
    parsed = read_perceiver(fields);
  else
    fields.refuse("model_type",
                  fmt::format("is {}; a resampler is read from \"blip-2\" (its Q-Former) or "
                              "\"idefics2\" (its Perceiver)",
                              fields.shown("model_type")));
  if (fields.has("quantization_config"))
    fields.refuse("quantization_config", "is there; only F32, F16 and BF16 are supported");
  if (fields.error()) return *fields.error();
  return parsed;
}

Result<ResamplerConfig> read_resampler_config(const ModelFolder& folder) {
  const Result<std::string> config = folder.read("config.json", kMaxFileBytes);
  if (!config) return config.error();
  return parse_resampler_config(*config);
}

}  // namespace fovea
