// SPDX-License-Identifier: Apache-2.0
#include "weights/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "weights/json_fields.h"

namespace fovea {
namespace {

// No model comes near these; with them no product of sizes overflows.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxSize = 1 << 17;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxId = INT32_MAX;
constexpr size_t kMaxTaps = 64;
constexpr int64_t kMaxFileBytes = 1 << 20;

int size_of(JsonFields& fields, const char* key, int64_t most) {
  return static_cast<int>(fields.integer(key, 1, most));
}

// Of `size` in parts of `parts`.
void check_divides(JsonFields& fields, const char* key, int size, const char* parts_key,
                   int parts) {
  if (size % parts != 0)
    fields.refuse(key, fmt::format("is {}, which {} = {} does not divide", size, parts_key, parts));
}

void check_model_type(JsonFields& fields, const nlohmann::json& config) {
  const std::string type = fields.string("model_type", "");
  const auto found = config.find("architectures");
  std::string architecture;
  if (found != config.end() && found->is_array() && !found->empty() && found->front().is_string())
    architecture = " (" + in_quotes(found->front().get_ref<const std::string&>()) + ")";
  if (type != "qwen3_vl")
    fields.refuse("model_type", fmt::format("is {}{}; only \"qwen3_vl\" "
                                            "(\"Qwen3VLForConditionalGeneration\") is supported",
                                            fields.shown("model_type"), architecture));
  if (fields.has("quantization_config"))
    fields.refuse("quantization_config",
                  "is there; only checkpoints of F32, F16 or BF16 are supported (weights of int8 "
                  "are made of those at load)");
}

// transformers' rule: rope_scaling, as published, goes before rope_parameters, as transformers 5
// saves it; a rope_theta in either before the one beside them.
void read_rope(JsonFields& fields, TextConfig& text) {
  constexpr double kLeastTheta = 1e-3;
  constexpr double kMostTheta = 1e15;
  const double outer = fields.real("rope_theta", kLeastTheta, kMostTheta, text.rope_theta);
  JsonFields rope =
      fields.object(fields.has("rope_scaling") ? "rope_scaling" : "rope_parameters", false);
  text.rope_theta = rope.real("rope_theta", kLeastTheta, kMostTheta, outer);
  rope.require(rope.has("rope_type") ? "rope_type" : "type", "default");
  if (!rope.has("mrope_section")) return;
  const std::vector<int64_t> sections = rope.integers("mrope_section", 0, kMaxHeadDim, 3);
  if (sections.size() != 3)
    rope.refuse("mrope_section",
                fmt::format("is {}; it must be three numbers", rope.shown("mrope_section")));
  for (size_t i = 0; i < 3 && i < sections.size(); ++i)
    text.mrope_section[i] = static_cast<int>(sections[i]);
}

TextConfig read_text(JsonFields fields) {
  TextConfig text;
  text.vocab_size = size_of(fields, "vocab_size", kMaxVocab);
  text.hidden_size = size_of(fields, "hidden_size", kMaxSize);
  text.intermediate_size = size_of(fields, "intermediate_size", kMaxSize);
  text.num_layers = size_of(fields, "num_hidden_layers", kMaxLayers);
  text.num_heads = size_of(fields, "num_attention_heads", kMaxHeads);
  text.num_kv_heads = size_of(fields, "num_key_value_heads", kMaxHeads);
  check_divides(fields, "num_attention_heads", text.num_heads, "num_key_value_heads",
                text.num_kv_heads);
  constexpr int64_t kHeadDim = 128;  // transformers' default, whatever the sizes are
  text.head_dim = static_cast<int>(fields.integer("head_dim", 1, kMaxHeadDim, kHeadDim));
  if (text.head_dim % 2 != 0)
    fields.refuse("head_dim",
                  fmt::format("is {}; rotary positions need an even one", text.head_dim));
  text.attention_bias = fields.boolean("attention_bias", false);
  text.rms_norm_eps = fields.real("rms_norm_eps", 1e-12, 0.1, 1e-6);
  text.max_positions = fields.integer("max_position_embeddings", 1, kMaxId, 128'000);
  fields.require("hidden_act", "silu");
  read_rope(fields, text);
  return text;
}

void read_deepstack(JsonFields& fields, VisionConfig& vision) {
  std::vector<int64_t> layers = {8, 16, 24};  // transformers' default, whatever the depth is
  if (fields.has("deepstack_visual_indexes"))
    layers = fields.integers("deepstack_visual_indexes", 0, kMaxId, kMaxTaps);
  vision.deepstack_mergers = static_cast<int>(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (std::count(layers.begin(), layers.end(), layers[i]) > 1)
      fields.refuse(
          "deepstack_visual_indexes",
          fmt::format("is {}; a layer is there twice", fields.shown("deepstack_visual_indexes")));
    if (layers[i] < vision.depth)  // transformers never reaches others, but stores their mergers
      vision.deepstack_taps.push_back({static_cast<int>(layers[i]), static_cast<int>(i)});
  }
  std::sort(vision.deepstack_taps.begin(), vision.deepstack_taps.end(),
            [](const DeepstackTap& a, const DeepstackTap& b) { return a.layer < b.layer; });
}

VisionConfig read_vision(JsonFields fields) {
  VisionConfig vision;
  fields.require("patch_size", 16);
  fields.require("temporal_patch_size", 2);
  fields.require("spatial_merge_size", 2);
  fields.require("in_channels", 3);
  fields.require("hidden_act", "gelu_pytorch_tanh");
  vision.depth = size_of(fields, "depth", kMaxLayers);
  vision.hidden_size = size_of(fields, "hidden_size", kMaxSize);
  vision.intermediate_size = size_of(fields, "intermediate_size", kMaxSize);
  vision.num_heads = size_of(fields, "num_heads", kMaxHeads);
  check_divides(fields, "hidden_size", vision.hidden_size, "num_heads", vision.num_heads);
  vision.head_dim = vision.hidden_size / vision.num_heads;
  if (vision.head_dim % 4 != 0)
    fields.refuse("hidden_size",
                  fmt::format("/ num_heads is {} / {} = {}; rotary positions need a "
                              "multiple of 4",
                              vision.hidden_size, vision.num_heads, vision.head_dim));
  vision.out_hidden_size = size_of(fields, "out_hidden_size", kMaxSize);
  vision.num_position_embeddings = size_of(fields, "num_position_embeddings", 1 << 20);
  while (vision.position_grid_side <
         vision.num_position_embeddings / (vision.position_grid_side + 1))
    ++vision.position_grid_side;
  JsonFields rope = fields.object("rope_parameters", false);
  vision.rope_theta = rope.real("rope_theta", 1e-3, 1e15, vision.rope_theta);
  rope.require("rope_type", "axial");
  read_deepstack(fields, vision);
  return vision;
}

// What a model of ours has beyond the stock ones; its tensors lie in fovea.safetensors.
void read_fovea(JsonFields& outer, ModelConfig& model) {
  constexpr int64_t kMaxLevels = 64;
  constexpr int64_t kMaxGrid = 64;
  if (!outer.has("fovea")) return;
  JsonFields fields = outer.object("fovea", true);
  model.vision.levels = static_cast<int>(fields.integer("levels", 0, kMaxLevels, 0));
  model.gaze.size = static_cast<int>(fields.integer("gaze_size", 0, kMaxSize, 0));
  if (model.gaze.size == 0) return;
  model.gaze.layer =
      static_cast<int>(fields.integer("gaze_layer", 1, std::max(model.text.num_layers, 1)));
  model.gaze.grid = size_of(fields, "gaze_grid", kMaxGrid);
  if ((model.gaze.grid & (model.gaze.grid - 1)) != 0)
    fields.refuse("gaze_grid", fmt::format("is {}; it must be a power of two", model.gaze.grid));
}

std::vector<int> ids_of(JsonFields& fields) {
  constexpr size_t kMost = 64;
  std::vector<int> ids;
  for (const int64_t id : fields.integers("eos_token_id", 0, kMaxId, kMost))
    ids.push_back(static_cast<int>(id));
  return ids;
}

// generation_config.json decides; a model saved without one has them in its text settings.
Result<std::vector<int>> read_eos(JsonFields& fields, std::string_view generation) {
  if (!generation.empty()) {
    const auto json = parse_settings("generation_config.json", generation);
    if (!json) return json.error();
    JsonFields own("generation_config.json", *json);
    std::vector<int> ids = ids_of(own);
    if (own.error()) return *own.error();
    if (!ids.empty()) return ids;
  }
  JsonFields text = fields.object("text_config", true);
  std::vector<int> ids = ids_of(text);
  return ids.empty() ? ids_of(fields) : ids;
}

}  // namespace

Result<ModelConfig> parse_config(std::string_view config, std::string_view generation) {
  const auto json = parse_settings("config.json", config);
  if (!json) return json.error();
  JsonFields fields("config.json", *json);
  check_model_type(fields, *json);
  ModelConfig model;
  JsonFields text = fields.object("text_config", true);
  model.text = read_text(text);
  model.vision = read_vision(fields.object("vision_config", true));
  read_fovea(fields, model);
  if (model.vision.out_hidden_size != model.text.hidden_size)
    fields.refuse("vision_config.out_hidden_size",
                  fmt::format("is {}, but text_config.hidden_size is {}",
                              model.vision.out_hidden_size, model.text.hidden_size));
  // transformers reads the outer one alone; a config that has only the inner one means it.
  model.tie_word_embeddings =
      fields.boolean("tie_word_embeddings", text.boolean("tie_word_embeddings", false));
  const auto id = [&](const char* key, int64_t otherwise) {
    return static_cast<int>(fields.integer(key, 0, kMaxId, otherwise));
  };
  model.image_token_id = id("image_token_id", 151'655);
  model.video_token_id = id("video_token_id", 151'656);
  model.vision_start_token_id = id("vision_start_token_id", 151'652);
  model.vision_end_token_id = id("vision_end_token_id", 151'653);
  if (model.image_token_id >= model.text.vocab_size)
    fields.refuse("image_token_id", fmt::format("is {}, but text_config.vocab_size is {}",
                                                model.image_token_id, model.text.vocab_size));
  Result<std::vector<int>> eos = read_eos(fields, generation);
  if (fields.error()) return *fields.error();
  if (!eos) return eos.error();
  model.eos_token_ids = *std::move(eos);
  return model;
}

Result<ModelConfig> read_config(const ModelFolder& folder) {
  const Result<std::string> config = folder.read("config.json", kMaxFileBytes);
  if (!config) return config.error();
  constexpr const char* kGeneration = "generation_config.json";
  if (!folder.has(kGeneration)) return parse_config(*config);
  const Result<std::string> generation = folder.read(kGeneration, kMaxFileBytes);
  if (!generation) return generation.error();
  return parse_config(*config, *generation);
}

}  // namespace fovea
