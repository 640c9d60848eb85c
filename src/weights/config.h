// SPDX-License-Identifier: Apache-2.0
// The settings of a Qwen3-VL model, from the JSON files of its folder, all checked.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "weights/model_folder.h"

namespace fovea {

// The output of block `layer` goes through deepstack merger `merger` and is added to the language
// model's hidden state after one of its first layers: the first tap after layer 0, and so on.
// (Taps beyond the language model's last layer go nowhere.)
struct DeepstackTap {
  int layer = 0;
  int merger = 0;

  friend bool operator==(const DeepstackTap&, const DeepstackTap&) = default;
};

// The tower. Patches are 16 px, 2 frames and 3 channels, cells 2x2 patches: nothing else is read.
struct VisionConfig {
  int depth = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_heads = 0;
  int head_dim = 0;  // hidden_size / num_heads, a multiple of 4
  int out_hidden_size = 0;
  int num_position_embeddings = 0;
  int position_grid_side = 0;  // the table is a square grid: floor(sqrt(num_position_embeddings))
  double rope_theta = 10'000;
  double layer_norm_eps = 1e-6;              // fixed by the model
  std::vector<DeepstackTap> deepstack_taps;  // by layer; those a block of the tower feeds
  int deepstack_mergers = 0;                 // that the checkpoint holds
  int levels = 0;  // rows of the level embedding that a model of ours has; 0: none

  int merged_size() const { return 4 * hidden_size; }  // of the four patches of a cell
};

struct TextConfig {
  int vocab_size = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;  // even; num_heads * head_dim need not be hidden_size
  bool attention_bias = false;
  double rms_norm_eps = 1e-6;
  double rope_theta = 500'000;
  // Interleaved M-RoPE: frequency i is that of the row where i % 3 == 1 and i < 3 * section[1], of
  // the column where i % 3 == 2 and i < 3 * section[2], and of time elsewhere. The sum of the
  // sections need not be head_dim / 2.
  std::array<int, 3> mrope_section = {24, 20, 20};
  int64_t max_positions = 0;
};

// The gaze head that a model of ours has: from the hidden state after `layer` layers, in `size`
// dimensions, for `grid` x `grid` places of a glance token's cell.
struct GazeConfig {
  int layer = 0;
  int size = 0;  // 0: there is none
  int grid = 0;  // a power of two, so that its places are cells of some level

  int places() const { return grid * grid; }  // of a token
};

struct ModelConfig {
  VisionConfig vision;
  TextConfig text;
  GazeConfig gaze;
  bool tie_word_embeddings = false;
  int image_token_id = 0;
  int video_token_id = 0;
  int vision_start_token_id = 0;
  int vision_end_token_id = 0;
  std::vector<int> eos_token_ids;  // where an answer ends; may be empty
};

// The image processor's limits; all its other settings are fixed and checked.
struct ProcessorConfig {
  int64_t min_pixels = 65'536;
  int64_t max_pixels = 16'777'216;
};

// From the text of the files. `generation` may be empty: the end tokens are then config.json's.
Result<ModelConfig> parse_config(std::string_view config, std::string_view generation = {});
// From preprocessor_config.json, or from processor_config.json as transformers 5 saves it. Limits
// that are not there are those of transformers' processor class.
Result<ProcessorConfig> parse_processor_config(const std::string& file, std::string_view text);

Result<ModelConfig> read_config(const ModelFolder& folder);
// Qwen3-VL's own limits where the folder has no file for them.
Result<ProcessorConfig> read_processor_config(const ModelFolder& folder);

}  // namespace fovea
