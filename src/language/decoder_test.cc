// SPDX-License-Identifier: Apache-2.0
// Ways of asking that must not change the answer, and what a caller can rely on besides it.
// decoder_parity_test.cc shows that the answer itself is right.
#include "language/decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/stop_loops.h"
#include "language/test_decoder_case.h"

namespace fovea {
namespace {

using test::all_of;
using test::DecoderCase;
using test::difference;

// Other chunks are other sums: a matmul may add in another order for other numbers of rows.
constexpr double kOtherOrder = 2e-5;

ForwardOptions with_all_logits(int chunk_tokens = 512) {
  ForwardOptions options;
  options.all_logits = true;
  options.chunk_tokens = chunk_tokens;
  return options;
}

bool same_bits(const Buffer<float>& a, const Buffer<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class DecoderTest : public testing::TestWithParam<int> {};

TEST_P(DecoderTest, ChunksGiveTheLogitsOfTheWhole) {
  DecoderCase c(GetParam());
  DecoderMemory memory;
  const Buffer<float> whole = c.forward(memory, with_all_logits());
  const auto vocab = static_cast<size_t>(c.golden.text().vocab_size);
  const auto last = all_of(whole).last(vocab);
  for (const int chunk : {1, 2, 3, 7, 15}) {
    DecoderMemory all_memory;
    const Buffer<float> all = c.forward(all_memory, with_all_logits(chunk));
    EXPECT_LE(difference(all_of(whole), all_of(all)), kOtherOrder) << "chunks of " << chunk;
    ForwardOptions options;
    options.chunk_tokens = chunk;
    DecoderMemory last_memory;
    const Buffer<float> logits = c.forward(last_memory, options);
    EXPECT_LE(difference(last, all_of(logits)), kOtherOrder) << "chunks of " << chunk;
    EXPECT_EQ(last_memory.tokens(), memory.tokens());
  }
}

TEST_P(DecoderTest, ReadingLeavesWhatDecodingLeaves) {
  DecoderCase c(GetParam());
  DecoderMemory decoded;
  c.forward(decoded);
  DecoderMemory read;
  EXPECT_TRUE(*c.decoder.read(c.threads, c.run(), read));
  ASSERT_EQ(read.tokens(), decoded.tokens());
  EXPECT_TRUE(same_bits(c.decode_one(7, c.positions.next, read),
                        c.decode_one(7, c.positions.next, decoded)));
}

TEST_P(DecoderTest, AFewLayersLeaveTheMemoryAndGiveTheirHiddenState) {
  DecoderCase c(GetParam());
  const int64_t width = c.golden.text().hidden_size;
  for (int layers = 1; layers <= c.golden.text().num_layers; ++layers) {
    std::vector<float> expected(c.ids.size() * static_cast<size_t>(width));
    ForwardOptions watching;
    watching.chunk_tokens = 5;
    watching.on_layer = [&](int layer, int64_t first, int64_t tokens, const float* hidden) {
      if (layer + 1 == layers)
        std::copy_n(hidden, tokens * width, expected.begin() + first * width);
    };
    DecoderMemory memory;
    c.forward(memory, watching);

    HiddenReadout readout;
    readout.layers = layers;
    ForwardOptions options;
    options.chunk_tokens = 5;
    options.hidden = &readout;
    DecoderMemory whole;
    EXPECT_TRUE(*c.decoder.read(c.threads, c.run(), whole, options));
    EXPECT_LE(difference(expected, all_of(readout.hidden)), kOtherOrder) << layers;
    options.layers = layers;
    DecoderMemory passing;
    EXPECT_TRUE(*c.decoder.read(c.threads, c.run(), passing, options));
    EXPECT_LE(difference(expected, all_of(readout.hidden)), kOtherOrder) << layers;
    EXPECT_EQ(passing.tokens(), 0);
    EXPECT_TRUE(*c.decoder.read(c.threads, c.run(), whole, options)) << "behind what is there";
    EXPECT_EQ(whole.tokens(), memory.tokens());
    EXPECT_TRUE(same_bits(c.decode_one(7, c.positions.next, whole),
                          c.decode_one(7, c.positions.next, memory)));
  }
}

// The run may end anywhere, in an image too, whose deepstack features its last token then needs.
TEST_P(DecoderTest, TokenByTokenGivesTheLogitsOfTheWhole) {
  DecoderCase c(GetParam());
  DecoderMemory memory;
  const Buffer<float> whole = c.forward(memory, with_all_logits());
  const auto vocab = static_cast<size_t>(c.golden.text().vocab_size);
  DecoderMemory growing;
  std::vector<VisualSpan> spans;
  for (size_t t = 0; t < c.ids.size(); ++t) {
    const Buffer<float> logits = *c.decoder.forward(c.threads, c.part(t, t + 1, spans), growing);
    EXPECT_LE(difference(all_of(whole).subspan(t * vocab, vocab), all_of(logits)), kOtherOrder)
        << "token " << t;
  }
  DecoderMemory part_memory;
  for (size_t end = 1; end <= c.ids.size(); end += 3) {
    part_memory.truncate(0);
    const Buffer<float> logits = *c.decoder.forward(c.threads, c.part(0, end, spans), part_memory);
    EXPECT_LE(difference(all_of(whole).subspan((end - 1) * vocab, vocab), all_of(logits)),
              kOtherOrder)
        << "run of " << end;
  }
}

TEST_P(DecoderTest, WhatWasForgottenLeavesNoTrace) {
  DecoderCase c(GetParam());
  DecoderMemory fresh;
  const Buffer<float> expected = c.forward(fresh);
  const size_t kept = c.ids.size() / 2;
  DecoderMemory memory;
  std::vector<VisualSpan> spans;
  (void)c.decoder.forward(c.threads, c.part(0, kept, spans), memory);
  for (int other = 0; other < 5; ++other)  // an answer to be forgotten
    c.decode_one(5 + other, 100.0f + static_cast<float>(other), memory);
  memory.truncate(static_cast<int64_t>(kept));
  const Buffer<float> logits =
      *c.decoder.forward(c.threads, c.part(kept, c.ids.size(), spans), memory);
  EXPECT_LE(difference(all_of(expected), all_of(logits)), kOtherOrder);
}

TEST_P(DecoderTest, AnyNumberOfThreadsGivesTheSameBits) {
  std::vector<Buffer<float>> logits;
  std::vector<std::vector<float>> masses;
  for (const int threads : {1, 2, 5}) {
    DecoderCase c(GetParam(), std::nullopt, threads);
    AttentionReadout readout{{0}, 0, c.ids.size(), 0, static_cast<int64_t>(c.ids.size()), {}};
    ForwardOptions options = with_all_logits(9);
    options.readout = &readout;
    DecoderMemory memory;
    logits.push_back(c.forward(memory, options));
    masses.push_back(readout.mass);
    EXPECT_TRUE(same_bits(logits.front(), logits.back())) << threads << " threads";
    EXPECT_EQ(masses.front(), masses.back()) << threads << " threads";
  }
}

TEST_P(DecoderTest, StoppingAnywhereLeavesTheMemoryAsItWas) {
  DecoderCase c(GetParam());
  const size_t kept = c.ids.size() / 3;
  std::vector<VisualSpan> spans;
  DecoderMemory memory;
  (void)c.decoder.forward(c.threads, c.part(0, kept, spans), memory);
  ForwardOptions options;
  options.chunk_tokens = 4;
  int allowed = 0;
  int asked = 0;
  options.keep_going = [&] { return asked++ < allowed; };
  const TokenRun rest = c.part(kept, c.ids.size(), spans);
  const int chunks = (static_cast<int>(rest.ids.size()) + 3) / 4;
  const int steps = chunks * c.golden.text().num_layers;
  for (; allowed < steps; ++allowed) {
    asked = 0;
    EXPECT_TRUE(c.decoder.forward(c.threads, rest, memory, options)->empty());
    EXPECT_EQ(asked, allowed + 1);
    for (const KeyValues& layer : memory.layers)
      ASSERT_EQ(layer.size(), static_cast<int64_t>(kept)) << "stopped after " << allowed;
  }
  asked = 0;
  const Buffer<float> logits = *c.decoder.forward(c.threads, rest, memory, options);
  EXPECT_EQ(asked, steps);
  DecoderMemory fresh;
  EXPECT_LE(difference(all_of(c.forward(fresh)), all_of(logits)), kOtherOrder);
}

// on_layer() takes so long that the head behind the last layer asks.
TEST_P(DecoderTest, StopsInsideALayerToo) {
  DecoderCase c(GetParam());
  std::vector<VisualSpan> spans;
  const size_t kept = c.ids.size() / 3;
  DecoderMemory memory;
  ASSERT_TRUE(c.decoder.forward(c.threads, c.part(0, kept, spans), memory));
  const TokenRun rest = c.part(kept, c.ids.size(), spans);
  bool going = true;
  ForwardOptions options;
  options.keep_going = [&] { return going; };
  options.on_layer = [&](int layer, int64_t, int64_t, const float*) {
    if (layer + 1 < c.golden.text().num_layers) return;
    going = false;
    std::this_thread::sleep_for(StopLoops::kAskEvery);
  };
  EXPECT_TRUE(c.decoder.forward(c.threads, rest, memory, options)->empty());
  EXPECT_EQ(memory.tokens(), static_cast<int64_t>(kept));
  const Buffer<float> logits = *c.decoder.forward(c.threads, rest, memory);
  DecoderMemory fresh;
  EXPECT_LE(difference(all_of(c.forward(fresh)), all_of(logits)), kOtherOrder);
}

// Three images, no image, one layer with more taps than that, and every grouping of heads.
INSTANTIATE_TEST_SUITE_P(models, DecoderTest, testing::Values(1, 3, 4, 5, 6, 8));

TEST(Decoder, PartsOfAnImageMayBeGivenApart) {
  DecoderCase c(7);
  DecoderMemory memory;
  const Buffer<float> expected = c.forward(memory);
  const VisualSpan whole = c.spans.front();
  std::vector<VisualSpan> parts = {{whole.at + 20, whole.tokens, 20, whole.count - 20},
                                   {whole.at, whole.tokens, 0, 13},
                                   {whole.at + 13, whole.tokens, 13, 7}};
  DecoderMemory other;
  EXPECT_TRUE(same_bits(expected,
                        *c.decoder.forward(c.threads, {c.ids, c.positions.tokens, parts}, other)));
}

TEST(Decoder, WhatIdsSayUnderAnImageDoesNotMatter) {
  DecoderCase c(7);
  DecoderMemory memory;
  const Buffer<float> expected = c.forward(memory);
  for (int i = 0; i < c.spans.front().count; ++i) c.ids[c.spans.front().at + i] = -1;
  DecoderMemory other;
  EXPECT_TRUE(same_bits(expected, c.forward(other)));
}

TEST(Decoder, LooksOfTestsAndTracesChangeNothing) {
  DecoderCase c(3);
  DecoderMemory memory;
  const Buffer<float> expected = c.forward(memory);
  ForwardOptions options;
  options.chunk_tokens = 10;
  std::vector<int64_t> starts;
  options.on_layer = [&](int layer, int64_t first, int64_t tokens, const float*) {
    if (layer == 0) starts.push_back(first);
    EXPECT_EQ(tokens, std::min<int64_t>(10, static_cast<int64_t>(c.ids.size()) - first));
  };
  DecoderMemory other;
  EXPECT_LE(difference(all_of(expected), all_of(c.forward(other, options))), kOtherOrder);
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 10, 20, 30, 40}));
}

TEST(Decoder, MemoryGrowsByThePageAndDoesNotMove) {
  DecoderCase c(1);
  DecoderMemory memory;
  c.forward(memory);
  const float* keys = memory.layers.front().key(0, 0);
  const float* scratch = memory.scratch.inner.data();
  while (memory.tokens() < 100) c.decode_one(7, 50, memory);
  EXPECT_EQ(memory.layers.front().key(0, 0), keys);
  EXPECT_EQ(memory.scratch.inner.data(), scratch) << "one token works in the memory of many";
  const TextConfig& text = c.golden.text();
  const size_t page_values =
      size_t{kPageTokens} * 2 * text.num_layers * text.num_kv_heads * text.head_dim;
  EXPECT_EQ(memory.bytes(), 2 * page_values * sizeof(float));
  memory.truncate(kPageTokens);
  EXPECT_EQ(memory.bytes(), page_values * sizeof(float));
}

TEST(Decoder, BytesAreThoseOfItsTensors) {
  for (const int model : {0, 2}) {  // tied without biases, not tied with them
    DecoderCase c(model);
    size_t bytes = 0;
    for (const SafetensorsFile& file : c.golden.checkpoint().tensors().files())
      for (size_t i = 0; i < file.size(); ++i)
        if (file.tensor(i).name.find("visual") == std::string_view::npos)
          bytes += file.tensor(i).bytes;
    EXPECT_EQ(c.decoder.bytes(), bytes);
  }
}

TEST(Decoder, ATensorThatCannotBeHadIsTheErrorOfBuilding) {
  DecoderCase c(2);
  Loader loader(c.threads, c.golden.checkpoint());
  const TensorSource whole = text_source(c.golden.checkpoint(), loader, std::nullopt);
  for (const std::string_view missing : {"embed_tokens.weight", "layers.1.self_attn.k_proj.bias",
                                         "layers.2.mlp.up_proj.weight", "lm_head.weight"}) {
    TensorSource source = whole;
    source.matrix = [&](std::string_view name) -> Result<Matrix> {
      if (name == missing) return bad_input("no " + std::string(name));
      return whole.matrix(name);
    };
    source.values = [&](std::string_view name) -> Result<Buffer<float>> {
      if (name == missing) return bad_input("no " + std::string(name));
      return whole.values(name);
    };
    const auto decoder = Decoder::build(c.golden.checkpoint().config(), source);
    ASSERT_FALSE(decoder);
    EXPECT_EQ(decoder.error().message, "no " + std::string(missing));
  }
}

}  // namespace
}  // namespace fovea
