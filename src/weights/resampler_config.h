// SPDX-License-Identifier: Apache-2.0
// The settings of a resampler, from the config.json of a BLIP-2 or Idefics2 model, all checked.
#pragma once

#include <string_view>
#include <variant>

#include "fovea/result.h"
#include "weights/model_folder.h"

namespace fovea {

// BLIP-2's: learned queries that attend to themselves and, in some layers, to the states.
struct QFormerConfig {
  int queries = 0;
  int state_size = 0;  // width of the states it attends to
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int head_dim = 0;     // hidden_size / num_heads, a multiple of 4
  int cross_every = 1;  // layers 0, cross_every, 2 * cross_every ... attend to the states
  double layer_norm_eps = 1e-12;
  int token_size = 0;  // as the projection in the checkpoint has it: a language model's width
};

// Idefics2's: states are brought to the width of the language model; learned latents attend to them
// and to themselves at once.
struct PerceiverConfig {
  int latents = 0;
  int state_size = 0;
  int projection_size = 0;  // inside of what widens the states
  int hidden_size = 0;      // of latents, and of tokens
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;  // a multiple of 4; num_heads * head_dim need not be hidden_size
  double rms_norm_eps = 1e-6;

  int intermediate_size() const { return 4 * hidden_size; }  // fixed by the model
};

using ResamplerConfig = std::variant<QFormerConfig, PerceiverConfig>;

// From the text of config.json, without token_size; what is not there has transformers' defaults.
Result<ResamplerConfig> parse_resampler_config(std::string_view config);
Result<ResamplerConfig> read_resampler_config(const ModelFolder& folder);

}  // namespace fovea
