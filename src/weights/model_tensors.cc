// SPDX-License-Identifier: Apache-2.0
#include "weights/model_tensors.h"

#include "fovea/words.h"

namespace fovea {
namespace {

constexpr int kChannels = 3;
constexpr int kFrames = 2;

class List {
 public:
  void add(const std::string& name, Shape shape) { tensors_.push_back({name, shape}); }
  // y = W x + b
  void add_linear(const std::string& name, int64_t out, int64_t in, bool bias = true) {
    add(name + ".weight", {out, in});
    if (bias) add(name + ".bias", {out});
  }
  void add_layer_norm(const std::string& name, int64_t size) {
    add(name + ".weight", {size});
    add(name + ".bias", {size});
  }
  std::vector<ExpectedTensor> take() { return std::move(tensors_); }

 private:
  std::vector<ExpectedTensor> tensors_;
};

void add_merger(List& list, const std::string& name, const VisionConfig& vision,
                int64_t norm_size) {
  list.add_layer_norm(name + ".norm", norm_size);
  list.add_linear(name + ".linear_fc1", vision.merged_size(), vision.merged_size());
  list.add_linear(name + ".linear_fc2", vision.out_hidden_size, vision.merged_size());
}

}  // namespace

std::vector<ExpectedTensor> vision_tensors(const VisionConfig& vision) {
  const int64_t hidden = vision.hidden_size;
  List list;
  list.add("patch_embed.proj.weight", {hidden, kChannels, kFrames, kPatchPx, kPatchPx});
  list.add("patch_embed.proj.bias", {hidden});
  list.add("pos_embed.weight", {vision.num_position_embeddings, hidden});
  for (int i = 0; i < vision.depth; ++i) {
    const std::string block = "blocks." + std::to_string(i);
    list.add_layer_norm(block + ".norm1", hidden);
    list.add_linear(block + ".attn.qkv", 3 * hidden, hidden);
    list.add_linear(block + ".attn.proj", hidden, hidden);
    list.add_layer_norm(block + ".norm2", hidden);
    list.add_linear(block + ".mlp.linear_fc1", vision.intermediate_size, hidden);
    list.add_linear(block + ".mlp.linear_fc2", hidden, vision.intermediate_size);
  }
  // The last merger normalises each patch, the deepstack mergers the four of a cell together.
  add_merger(list, "merger", vision, hidden);
  for (int i = 0; i < vision.deepstack_mergers; ++i)
    add_merger(list, "deepstack_merger_list." + std::to_string(i), vision, vision.merged_size());
  return list.take();
}

std::vector<ExpectedTensor> text_tensors(const TextConfig& text) {
  const int64_t hidden = text.hidden_size;
  const int64_t q_size = int64_t{text.num_heads} * text.head_dim;
  const int64_t kv_size = int64_t{text.num_kv_heads} * text.head_dim;
  List list;
  list.add("embed_tokens.weight", {text.vocab_size, hidden});
  for (int i = 0; i < text.num_layers; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    list.add(layer + ".input_layernorm.weight", {hidden});
    list.add_linear(layer + ".self_attn.q_proj", q_size, hidden, text.attention_bias);
    list.add_linear(layer + ".self_attn.k_proj", kv_size, hidden, text.attention_bias);
    list.add_linear(layer + ".self_attn.v_proj", kv_size, hidden, text.attention_bias);
    list.add_linear(layer + ".self_attn.o_proj", hidden, q_size, text.attention_bias);
    list.add(layer + ".self_attn.q_norm.weight", {text.head_dim});
    list.add(layer + ".self_attn.k_norm.weight", {text.head_dim});
    list.add(layer + ".post_attention_layernorm.weight", {hidden});
    list.add_linear(layer + ".mlp.gate_proj", text.intermediate_size, hidden, false);
    list.add_linear(layer + ".mlp.up_proj", text.intermediate_size, hidden, false);
    list.add_linear(layer + ".mlp.down_proj", hidden, text.intermediate_size, false);
  }
  list.add("norm.weight", {hidden});
  return list.take();
}

ExpectedTensor head_tensor(const TextConfig& text) {
  return {"lm_head.weight", {text.vocab_size, text.hidden_size}};
}

std::vector<ExpectedTensor> extra_tensors(const ModelConfig& config) {
  const int64_t hidden = config.text.hidden_size;
  const GazeConfig& gaze = config.gaze;
  List list;
  if (config.vision.levels > 0)
    list.add("level_embedding", {config.vision.levels, config.vision.hidden_size});
  if (gaze.size > 0) {
    list.add("gaze.norm.weight", {hidden});
    list.add("gaze.query.weight", {gaze.size, hidden});
    list.add("gaze.key.weight", {int64_t{gaze.places()} * gaze.size, hidden});
  }
  return list.take();
}

int64_t parameter_count(const ModelConfig& config) {
  int64_t count = config.tie_word_embeddings ? 0 : head_tensor(config.text).shape.values();
  for (const ExpectedTensor& tensor : vision_tensors(config.vision)) count += tensor.shape.values();
  for (const ExpectedTensor& tensor : text_tensors(config.text)) count += tensor.shape.values();
  for (const ExpectedTensor& tensor : extra_tensors(config)) count += tensor.shape.values();
  return count;
}

}  // namespace fovea
