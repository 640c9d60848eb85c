// SPDX-License-Identifier: Apache-2.0
#include "language/decoder_weights.h"

#include <optional>
#include <string>

#include "base/check.h"

namespace fovea {
namespace {

// Takes tensors one after the other and remembers the first that failed. A source that gives other
// shapes than the settings say is a programmer's mistake: checkpoints are checked when opened.
class Taker {
 public:
  explicit Taker(const TensorSource& source) : source_(source) {}

  void take(const std::string& name, int64_t rows, int64_t cols, Matrix& out) {
    if (error_) return;
    Result<Matrix> matrix = source_.matrix(name);
    if (!matrix) {
      error_ = matrix.error();
      return;
    }
    FOVEA_CHECK(matrix->rows() == rows && matrix->cols() == cols);
    out = *std::move(matrix);
  }

  void take(const std::string& name, int64_t count, Buffer<float>& out) {
    if (error_) return;
    Result<Buffer<float>> values = source_.values(name);
    if (!values) {
      error_ = values.error();
      return;
    }
    FOVEA_CHECK(values->size() == static_cast<size_t>(count));
    out = *std::move(values);
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  const TensorSource& source_;
  std::optional<Error> error_;
};

void take_layer(Taker& taker, const TextConfig& config, const std::string& name,
                DecoderLayer& layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t q_size = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
  const auto linear = [&](const std::string& part, int64_t rows, int64_t cols, Matrix& matrix,
                          Buffer<float>& bias) {
    taker.take(name + part + ".weight", rows, cols, matrix);
    if (config.attention_bias) taker.take(name + part + ".bias", rows, bias);
  };
  taker.take(name + "input_layernorm.weight", hidden, layer.input_norm);
  linear("self_attn.q_proj", q_size, hidden, layer.q, layer.q_bias);
  linear("self_attn.k_proj", kv_size, hidden, layer.k, layer.k_bias);
  linear("self_attn.v_proj", kv_size, hidden, layer.v, layer.v_bias);
  linear("self_attn.o_proj", hidden, q_size, layer.o, layer.o_bias);
  taker.take(name + "self_attn.q_norm.weight", config.head_dim, layer.q_norm);
  taker.take(name + "self_attn.k_norm.weight", config.head_dim, layer.k_norm);
  taker.take(name + "post_attention_layernorm.weight", hidden, layer.attention_norm);
  taker.take(name + "mlp.gate_proj.weight", config.intermediate_size, hidden, layer.gate);
  taker.take(name + "mlp.up_proj.weight", config.intermediate_size, hidden, layer.up);
  taker.take(name + "mlp.down_proj.weight", hidden, config.intermediate_size, layer.down);
}

}  // namespace

Result<DecoderWeights> take_decoder_weights(const ModelConfig& config, const TensorSource& source) {
  const TextConfig& text = config.text;
  DecoderWeights weights;
  Taker taker(source);
  taker.take("embed_tokens.weight", text.vocab_size, text.hidden_size, weights.embedding);
  weights.layers.resize(static_cast<size_t>(text.num_layers));
  for (size_t i = 0; i < weights.layers.size(); ++i)
    take_layer(taker, text, "layers." + std::to_string(i) + ".", weights.layers[i]);
  taker.take("norm.weight", text.hidden_size, weights.norm);
  if (!config.tie_word_embeddings)
    taker.take("lm_head.weight", text.vocab_size, text.hidden_size, weights.own_head);
  if (taker.error()) return *taker.error();
  return weights;
}

size_t DecoderWeights::bytes() const {
  size_t values = norm.size();
  size_t bytes = embedding.bytes() + own_head.bytes();
  for (const DecoderLayer& layer : layers) {
    for (const Matrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      bytes += matrix->bytes();
    for (const Buffer<float>* vector :
         {&layer.input_norm, &layer.attention_norm, &layer.q_norm, &layer.k_norm, &layer.q_bias,
          &layer.k_bias, &layer.v_bias, &layer.o_bias})
      values += vector->size();
  }
  return bytes + values * sizeof(float);
}

}  // namespace fovea
