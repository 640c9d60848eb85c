// SPDX-License-Identifier: Apache-2.0
// Attention read out while decoding, against queries computed here from the layer's input.
#include <gtest/gtest.h>

#include <numeric>

#include "language/test_decoder_case.h"
#include "ops/attention/attention.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rope.h"

namespace fovea {
namespace {

using test::DecoderCase;

// Both are f32 computations of the same masses (at most 1), in other orders.
constexpr double kNear = 1e-5;

// The input of a layer for all tokens: what the one before gives.
std::vector<float> input_of(DecoderCase& c, int layer, DecoderMemory& memory) {
  std::vector<float> input;
  ForwardOptions options;
  options.on_layer = [&](int seen, int64_t, int64_t tokens, const float* hidden) {
    if (seen == layer - 1) input.assign(hidden, hidden + tokens * c.golden.text().hidden_size);
  };
  c.forward(memory, options);
  return input;
}

// The queries of a layer, rotated, by plain loops.
std::vector<float> queries_of(DecoderCase& c, int layer, const std::vector<float>& input) {
  const TextConfig& text = c.golden.text();
  Loader loader(c.threads, c.golden.checkpoint());
  const TensorSource source = text_source(c.golden.checkpoint(), loader, std::nullopt);
  const std::string name = "layers." + std::to_string(layer) + ".";
  const auto count = static_cast<int64_t>(c.ids.size());
  const auto eps = static_cast<float>(text.rms_norm_eps);
  std::vector<float> normed(input.size());
  rms_norm_reference(input.data(), text.hidden_size, count, 1, text.hidden_size,
                     source.values(name + "input_layernorm.weight")->data(), eps, normed.data(),
                     text.hidden_size);
  const Matrix weights = *source.matrix(name + "self_attn.q_proj.weight");
  Buffer<float> bias;
  if (text.attention_bias) bias = *source.values(name + "self_attn.q_proj.bias");
  std::vector<float> q(static_cast<size_t>(count * weights.rows()));
  const Product product{.weights = &weights, .bias = bias.data(), .y = q.data()};
  matmul_reference(normed.data(), 0, count, {&product, 1});
  rms_norm_reference(q.data(), weights.rows(), count, text.num_heads, text.head_dim,
                     source.values(name + "self_attn.q_norm.weight")->data(), eps, q.data(),
                     weights.rows());
  const int half = text.head_dim / 2;
  std::vector<float> cos;
  std::vector<float> sin;
  for (const TokenPosition& at : c.positions.tokens) {
    for (int i = 0; i < half; ++i) {
      const bool row = i % 3 == 1 && i < 3 * text.mrope_section[1];
      const bool col = i % 3 == 2 && i < 3 * text.mrope_section[2];
      const double angle = (row   ? at.row
                            : col ? at.col
                                  : at.time) *
                           std::pow(text.rope_theta, -double(i) / half);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  rotate_reference(q.data(), weights.rows(), count, text.num_heads, text.head_dim, cos.data(),
                   sin.data());
  return q;
}

std::vector<float> expected_mass(DecoderCase& c, int layer, const AttentionReadout& asked) {
  DecoderMemory memory;
  const std::vector<float> q = queries_of(c, layer, input_of(c, layer, memory));
  const TextConfig& text = c.golden.text();
  AttentionParams params;
  params.heads = text.num_heads;
  params.scale = 1 / std::sqrt(static_cast<float>(text.head_dim));
  params.causal = true;
  params.first_query = static_cast<int64_t>(asked.query_begin);
  const int64_t stride = int64_t{text.num_heads} * text.head_dim;
  std::vector<float> mass(static_cast<size_t>(asked.key_end - asked.key_begin));
  attention_mass_reference(q.data() + asked.query_begin * stride, stride,
                           static_cast<int64_t>(asked.query_end - asked.query_begin),
                           memory.layers[static_cast<size_t>(layer)].view(), params,
                           asked.key_begin, asked.key_end, mass.data());
  return mass;
}

void expect_near(const std::vector<float>& expected, const std::vector<float>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(expected[i], actual[i], kNear) << "key " << i;
}

// From the words after the last image to that image, and other ranges.
TEST(Readout, IsTheMassOfTheLayersAskedFor) {
  for (const int model : {1, 3, 8}) {
    DecoderCase c(model);
    const int last_layer = c.golden.text().num_layers - 1;
    const auto count = c.ids.size();
    const GoldenImage& image = c.golden.images().back();
    const auto at = static_cast<int64_t>(image.at);
    const std::vector<AttentionReadout> asked = {
        {{1}, image.at + image.grid.cells(), count, at, at + image.grid.cells(), {}},
        {{last_layer}, count / 2, count - 1, 2, static_cast<int64_t>(count), {}},
        {{last_layer}, 1, 4, 0, 3, {}},
        {{1, last_layer}, count - 1, count, at, at + 1, {}}};
    for (const AttentionReadout& one : asked) {
      std::vector<float> expected(static_cast<size_t>(one.key_end - one.key_begin));
      for (const int layer : one.layers) {
        const std::vector<float> mass = expected_mass(c, layer, one);
        for (size_t i = 0; i < mass.size(); ++i)
          expected[i] += mass[i] / static_cast<float>(one.layers.size());
      }
      for (const int chunk : {512, 5, 1}) {
        AttentionReadout readout = one;
        readout.mass = {-1, -1};
        ForwardOptions options;
        options.readout = &readout;
        options.chunk_tokens = chunk;
        DecoderMemory memory;
        c.forward(memory, options);
        expect_near(expected, readout.mass);
      }
    }
  }
}

// Of the last query of the whole prompt, and of one that is not the last token.
TEST(Readout, OfTheLastQueryAloneIsItsMass) {
  for (const int model : {1, 3, 8}) {
    DecoderCase c(model);
    const int last_layer = c.golden.text().num_layers - 1;
    const auto count = static_cast<int64_t>(c.ids.size());
    for (const size_t end : {c.ids.size(), c.ids.size() - 2}) {
      const AttentionReadout alone{{last_layer}, end - 1, end, 1, count - 3, {}};
      const std::vector<float> expected = expected_mass(c, last_layer, alone);
      for (const int chunk : {512, 5, 1}) {
        AttentionReadout readout{{last_layer}, end - 4, end, 1, count - 3, {}};
        readout.wants_last = true;
        ForwardOptions options;
        options.readout = &readout;
        options.chunk_tokens = chunk;
        DecoderMemory memory;
        c.forward(memory, options);
        expect_near(expected, readout.last_mass);
        EXPECT_NE(readout.mass, readout.last_mass) << "the mass is that of all queries";
      }
    }
  }
}

TEST(Readout, OfADecodeStepIsTheMassOfItsToken) {
  for (const int model : {1, 3, 8}) {
    DecoderCase c(model);
    const int last_layer = c.golden.text().num_layers - 1;
    const size_t count = c.ids.size();
    AttentionReadout asked{{1, last_layer}, count - 1, count, 2, static_cast<int64_t>(count), {}};
    std::vector<float> expected = expected_mass(c, 1, asked);
    const std::vector<float> second = expected_mass(c, last_layer, asked);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = (expected[i] + second[i]) / 2;
    DecoderMemory memory;
    std::vector<VisualSpan> spans;
    ASSERT_TRUE(*c.decoder.read(c.threads, c.part(0, count - 1, spans), memory));
    asked.query_begin = 0;
    asked.query_end = 1;
    (void)*c.decoder.forward(c.threads, c.part(count - 1, count, spans), memory,
                             {.readout = &asked});
    expect_near(expected, asked.mass);
  }
}

TEST(Readout, SumsToOneOverAllKeysAndToLessOverSome) {
  DecoderCase c(5);
  const auto count = static_cast<int64_t>(c.ids.size());
  for (const int64_t begin : {int64_t{0}, int64_t{4}}) {
    AttentionReadout readout{{0, 1}, 8, c.ids.size(), begin, count, {}};
    ForwardOptions options;
    options.readout = &readout;
    options.chunk_tokens = 6;
    DecoderMemory memory;
    c.forward(memory, options);
    const double sum = std::accumulate(readout.mass.begin(), readout.mass.end(), 0.0);
    EXPECT_LE(sum, 1 + kNear);
    EXPECT_EQ(sum > 1 - kNear, begin == 0) << sum;
    EXPECT_GT(sum, 0.1);
  }
}

TEST(Readout, OfALaterRunSeesTheKeysInMemory) {
  DecoderCase c(3);
  const size_t kept = c.ids.size() - 5;
  AttentionReadout whole{{0, 3}, kept, c.ids.size(), 0, static_cast<int64_t>(kept), {}};
  ForwardOptions options;
  options.readout = &whole;
  DecoderMemory memory;
  c.forward(memory, options);
  AttentionReadout later = whole;
  later.query_begin = 0;
  later.query_end = 5;
  later.mass.clear();
  DecoderMemory other;
  std::vector<VisualSpan> spans;
  (void)c.decoder.forward(c.threads, c.part(0, kept, spans), other);
  options.readout = &later;
  const TokenRun rest = c.part(kept, c.ids.size(), spans);
  const Buffer<float> with = *c.decoder.forward(c.threads, rest, other, options);
  expect_near(whole.mass, later.mass);
  other.truncate(static_cast<int64_t>(kept));
  const Buffer<float> without = *c.decoder.forward(c.threads, rest, other);
  EXPECT_LE(test::difference(test::all_of(without), test::all_of(with)), 2e-5)
      << "reading changes nothing but the order of sums";
}

}  // namespace
}  // namespace fovea
