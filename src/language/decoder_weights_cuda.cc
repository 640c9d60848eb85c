// SPDX-License-Identifier: Apache-2.0
// The decoder's weights on their way to a GPU.
#include <algorithm>
#include <array>

#include "language/decoder_angles.h"
#include "language/decoder_cuda.h"

namespace fovea {
namespace {

Status upload_layer(WeightUploads& uploads, const DecoderLayer& from, DeviceDecoderLayer& to) {
  Status done = upload_values(uploads, from.input_norm, to.input_norm);
  if (done) done = upload_values(uploads, from.attention_norm, to.attention_norm);
  if (done) done = upload_values(uploads, from.q_norm, to.q_norm);
  if (done) done = upload_values(uploads, from.k_norm, to.k_norm);
  const std::array<LinearPart, 3> qkv = {LinearPart{&from.q, &from.q_bias},
                                         LinearPart{&from.k, &from.k_bias},
                                         LinearPart{&from.v, &from.v_bias}};
  if (done) done = upload_linear(uploads, qkv, to.qkv);
  const std::array<LinearPart, 1> o = {LinearPart{&from.o, &from.o_bias}};
  if (done) done = upload_linear(uploads, o, to.o);
  if (done) done = upload_gate_up(uploads, from.gate, from.up, to.gate_up);
  const std::array<LinearPart, 1> down = {LinearPart{&from.down, nullptr}};
  if (done) done = upload_linear(uploads, down, to.down);
  return done;
}

}  // namespace

Status DeviceDecoderWeights::upload(WeightUploads& uploads, const TextConfig& config,
                                    const DecoderWeights& weights) {
  const std::array<LinearPart, 1> words = {LinearPart{&weights.embedding, nullptr}};
  Status done = upload_linear(uploads, words, embedding);
  const std::array<LinearPart, 1> ends = {LinearPart{&weights.own_head, nullptr}};
  if (done && weights.own_head.rows() > 0) done = upload_linear(uploads, ends, own_head);
  if (done) done = upload_values(uploads, weights.norm, norm);
  const std::vector<float> computed = text_frequencies(config);
  Buffer<float> values(computed.size());
  std::copy(computed.begin(), computed.end(), values.begin());
  if (done) done = upload_values(uploads, values, frequencies);
  layers.resize(weights.layers.size());
  for (size_t i = 0; done && i < layers.size(); ++i)
    done = upload_layer(uploads, weights.layers[i], layers[i]);
  return done;
}

size_t DeviceDecoderWeights::bytes() const {
  size_t bytes = embedding.bytes() + own_head.bytes() + norm.bytes() + frequencies.bytes();
  for (const DeviceDecoderLayer& layer : layers)
    bytes += layer.input_norm.bytes() + layer.attention_norm.bytes() + layer.q_norm.bytes() +
             layer.k_norm.bytes() + layer.qkv.bytes() + layer.o.bytes() + layer.gate_up.bytes() +
             layer.down.bytes();
  return bytes;
}

}  // namespace fovea
