// SPDX-License-Identifier: Apache-2.0
// The tensors a Qwen3-VL checkpoint must hold, as functions of its settings.
#pragma once

#include <string>
#include <vector>

#include "weights/config.h"
#include "weights/tensor.h"

namespace fovea {

struct ExpectedTensor {
  std::string name;  // without the prefix of its part
  Shape shape;
};

// "patch_embed.proj.weight", "blocks.0.attn.qkv.weight", ...
std::vector<ExpectedTensor> vision_tensors(const VisionConfig& vision);
// "embed_tokens.weight", "layers.0.self_attn.q_proj.weight", ..., "norm.weight"; not the head.
std::vector<ExpectedTensor> text_tensors(const TextConfig& text);
// "lm_head.weight"; stands for itself only where it is not tied to the embedding.
ExpectedTensor head_tensor(const TextConfig& text);

// "level_embedding", "gaze.query.weight", ...: what settings under "fovea" ask for.
std::vector<ExpectedTensor> extra_tensors(const ModelConfig& config);

// Of the whole model; a tied head counts once, as the embedding.
int64_t parameter_count(const ModelConfig& config);

}  // namespace fovea
