// SPDX-License-Identifier: Apache-2.0
// What tests of decoders on a device share: random models and prompts with images.
#pragma once

#include <cmath>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "device/cuda/bf16.h"
#include "language/decoder.h"
#include "language/positions.h"
#include "vision/test_towers.h"
#include "weights/model_tensors.h"

namespace fovea::test {

struct DecoderSize {
  int layers = 2;
  int hidden = 48;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int intermediate = 72;
  int vocab = 101;
  bool bias = false;
  bool tied = true;
};

inline ModelConfig config_of(const DecoderSize& size) {
  ModelConfig config;
  config.text.vocab_size = size.vocab;
  config.text.hidden_size = size.hidden;
  config.text.intermediate_size = size.intermediate;
  config.text.num_layers = size.layers;
  config.text.num_heads = size.heads;
  config.text.num_kv_heads = size.kv_heads;
  config.text.head_dim = size.head_dim;
  config.text.attention_bias = size.bias;
  const int part = size.head_dim / 8;
  config.text.mrope_section = {size.head_dim / 2 - 2 * part, part, part};
  config.text.rope_theta = 30;  // so that rows and columns matter in few dimensions and places
  config.tie_word_embeddings = size.tied;
  return config;
}

// Activations stay near 1: matrices by their number of inputs, norms around 1, biases around 0.
inline StoredTensors random_tensors(const ModelConfig& config, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<ExpectedTensor> all = text_tensors(config.text);
  if (!config.tie_word_embeddings) all.push_back(head_tensor(config.text));
  StoredTensors tensors;
  for (const ExpectedTensor& expected : all) {
    const bool is_vector = expected.shape.rank == 1;
    const bool is_gain = is_vector && expected.name.ends_with("norm.weight");
    const bool is_table = expected.name == "embed_tokens.weight";
    const auto inputs = static_cast<double>(expected.shape.values() / expected.shape[0]);
    const double spread = is_vector ? 0.3 : is_table ? 0.5 : 1 / std::sqrt(inputs);
    std::normal_distribution<double> normal(is_gain ? 1 : 0, spread);
    StoredTensor tensor{expected.shape, {}};
    for (int64_t i = 0; i < expected.shape.values(); ++i)
      tensor.values.push_back(static_cast<float>(normal(random)));
    tensors.emplace(expected.name, std::move(tensor));
  }
  return tensors;
}

// Values that bf16 holds exactly.
inline Buffer<float> random_features(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.5f);
  Buffer<float> values(count);
  for (float& value : values) value = to_float(to_bf16(normal(random)));
  return values;
}

struct ImageInPrompt {
  int text_before = 0;
  Grid grid;
};

// Text and images alternately, then text.
struct RandomPrompt {
  std::vector<int> ids;
  PromptPositions positions;
  std::deque<VisualTokens> images;  // that spans refer to
  std::vector<VisualSpan> spans;

  RandomPrompt(const TextConfig& config, const std::vector<ImageInPrompt>& wanted, int text_after,
               int taps, uint32_t seed) {
    std::mt19937 random(seed);
    std::deque<std::vector<Cell>> cells;
    std::vector<ImageSpan> placed;
    const auto add_ids = [&](int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        ids.push_back(static_cast<int>(random() % static_cast<unsigned>(config.vocab_size)));
    };
    for (const ImageInPrompt& image : wanted) {
      add_ids(image.text_before);
      VisualTokens& tokens = images.emplace_back();
      tokens.count = static_cast<int>(image.grid.cells());
      tokens.width = config.hidden_size;
      const size_t values = static_cast<size_t>(tokens.count) * static_cast<size_t>(tokens.width);
      tokens.features = random_features(values, random);
      for (int tap = 0; tap < taps; ++tap)
        tokens.deepstack.push_back(random_features(values, random));
      auto& own = cells.emplace_back();
      for (int row = 0; row < image.grid.rows; ++row)
        for (int col = 0; col < image.grid.cols; ++col) own.push_back({0, row, col});
      placed.push_back({ids.size(), own, image.grid});
      spans.push_back({ids.size(), &tokens, 0, tokens.count});
      ids.insert(ids.end(), static_cast<size_t>(tokens.count), -1);
    }
    add_ids(text_after);
    positions = prompt_positions(ids.size(), placed);
  }

  TokenRun run() const { return {ids, positions.tokens, spans}; }
};

// Tokens [begin, end) of a run; `kept` holds the parts of the images in it.
inline TokenRun part_of(const TokenRun& run, size_t begin, size_t end,
                        std::vector<VisualSpan>& kept) {
  kept.clear();
  for (const VisualSpan& span : run.visual) {
    const size_t from = std::max(begin, span.at);
    const size_t to = std::min(end, span.at + static_cast<size_t>(span.count));
    if (from < to)
      kept.push_back({from - begin, span.tokens, span.first + static_cast<int>(from - span.at),
                      static_cast<int>(to - from)});
  }
  return {run.ids.subspan(begin, end - begin), run.positions.subspan(begin, end - begin), kept};
}

}  // namespace fovea::test
