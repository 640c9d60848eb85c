// SPDX-License-Identifier: Apache-2.0
// The decoder computes what transformers computes, on the models of tests/fixtures/models: every
// kind of head grouping, positions, biases, ties and taps, with 0 to 3 images in the prompt.
#include <gtest/gtest.h>

#include <numeric>

#include "language/test_decoder_case.h"

namespace fovea {
namespace {

using test::all_of;
using test::cosine;
using test::DecoderCase;
using test::difference;

// The project's limit. What is left between two f32 computations of the same sums in other orders
// is a few 1e-7 a layer.
constexpr double kParity = 1e-4;

class parity_language : public testing::TestWithParam<int> {};

TEST_P(parity_language, PositionsAreEqual) {
  DecoderCase c(GetParam());
  const std::vector<float> expected = c.golden.floats("position_ids");  // [3][tokens]
  const size_t count = c.ids.size();
  ASSERT_EQ(expected.size(), 3 * count);
  for (size_t t = 0; t < count; ++t) {
    const TokenPosition position{expected[t], expected[count + t], expected[2 * count + t]};
    EXPECT_EQ(c.positions.tokens[t], position) << "token " << t;
  }
  EXPECT_EQ(c.positions.next, c.golden.facts().at("next_position").get<float>());
}

TEST_P(parity_language, EveryLayerIsNear) {
  DecoderCase c(GetParam());
  std::vector<int> seen;
  double worst = 0;
  ForwardOptions options;
  options.on_layer = [&](int layer, int64_t first, int64_t tokens, const float* hidden) {
    EXPECT_EQ(first, 0);
    EXPECT_EQ(tokens, static_cast<int64_t>(c.ids.size()));
    const auto expected = c.golden.floats("layer." + std::to_string(layer));
    const auto size = static_cast<size_t>(tokens) * c.golden.text().hidden_size;
    worst = std::max(worst, difference(expected, {hidden, size}));
    seen.push_back(layer);
  };
  DecoderMemory memory;
  c.forward(memory, options);
  EXPECT_LE(worst, kParity);
  std::vector<int> all(static_cast<size_t>(c.golden.text().num_layers));
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
  RecordProperty("worst", std::to_string(worst));
}

TEST_P(parity_language, LogitsAreNear) {
  DecoderCase c(GetParam());
  const auto expected = c.golden.floats("logits");
  const auto vocab = static_cast<size_t>(c.golden.text().vocab_size);
  DecoderMemory memory;
  const Buffer<float> logits = c.forward(memory);
  EXPECT_LE(difference(std::span(expected).last(vocab), all_of(logits)), kParity);
  EXPECT_EQ(memory.tokens(), static_cast<int64_t>(c.ids.size()));
  if (expected.size() == vocab) return;  // those of the last token alone
  ForwardOptions options;
  options.all_logits = true;
  DecoderMemory other;
  EXPECT_LE(difference(expected, all_of(c.forward(other, options))), kParity);
}

TEST_P(parity_language, GreedyTokensAreEqual) {
  DecoderCase c(GetParam());
  const std::vector<int> expected = c.golden.ints("greedy.ids");
  const std::vector<float> logprobs = c.golden.floats("greedy.logprobs");
  ASSERT_EQ(expected.size(), 64u);
  DecoderMemory memory;
  Buffer<float> logits = c.forward(memory);
  float position = c.positions.next;
  for (size_t step = 0; step < expected.size(); ++step, ++position) {
    const float* best = std::max_element(logits.begin(), logits.end());
    const int id = static_cast<int>(best - logits.begin());
    ASSERT_EQ(id, expected[step]) << "step " << step;
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit} - *best);
    // Logits of these models reach 10, so 1e-3 is the same 1e-4 of them.
    EXPECT_NEAR(-std::log(sum), logprobs[step], 1e-3) << "step " << step;
    logits = c.decode_one(id, position, memory);
  }
}

// Against the f32 logits of the same f32 checkpoint, so that the rounding of the weights counts
// too. The project's limits: bf16 0.9999 (here of the logits that choose the first token, and of
// all tokens of the prompt on average); int8 0.995 on average and 0.99 at worst.
TEST_P(parity_language, SmallerFormatsStayNear) {
  ForwardOptions options;
  options.all_logits = true;
  DecoderCase exact(GetParam());
  DecoderMemory memory;
  const Buffer<float> logits = exact.forward(memory, options);
  const auto vocab = static_cast<size_t>(exact.golden.text().vocab_size);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8}) {
    const bool is_bf16 = format == WeightFormat::kBf16;
    DecoderCase small(GetParam(), format);
    DecoderMemory other;
    const Buffer<float> near = small.forward(other, options);
    ASSERT_EQ(near.size(), logits.size());
    double worst = 1;
    double sum = 0;
    double last = 0;
    for (size_t at = 0; at < logits.size(); at += vocab) {
      last = cosine(all_of(logits).subspan(at, vocab), all_of(near).subspan(at, vocab));
      worst = std::min(worst, last);
      sum += last;
    }
    const double mean = sum / static_cast<double>(exact.ids.size());
    EXPECT_GE(mean, is_bf16 ? 0.9999 : 0.995);
    EXPECT_GE(worst, is_bf16 ? 0.9995 : 0.99);
    std::printf("model %d %s: cosine %.6f on average, %.6f at worst, %.6f for the last token\n",
                GetParam(), is_bf16 ? "bf16" : "int8", mean, worst, last);
  }
}

INSTANTIATE_TEST_SUITE_P(models, parity_language, testing::Range(0, kGoldenModels));

}  // namespace
}  // namespace fovea
