// SPDX-License-Identifier: Apache-2.0
// What a decoder computes with: its matrices and norms.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "fovea/result.h"
#include "ops/matrix.h"
#include "weights/config.h"
#include "weights/tensor_source.h"

namespace fovea {

// Biases are empty where the model has none.
struct DecoderLayer {
  Buffer<float> input_norm;      // [hidden_size]
  Buffer<float> attention_norm;  // [hidden_size]; transformers' post_attention_layernorm
  Buffer<float> q_norm;          // [head_dim]
  Buffer<float> k_norm;
  Matrix q, k, v, o;
  Buffer<float> q_bias, k_bias, v_bias, o_bias;
  Matrix gate, up, down;
};

struct DecoderWeights {
  Matrix embedding;  // [vocab_size][hidden_size]
  Matrix own_head;   // likewise; empty where it is the embedding
  Buffer<float> norm;
  std::vector<DecoderLayer> layers;

  const Matrix& head() const { return own_head.rows() > 0 ? own_head : embedding; }
  size_t bytes() const;
};

Result<DecoderWeights> take_decoder_weights(const ModelConfig& config, const TensorSource& source);

}  // namespace fovea
