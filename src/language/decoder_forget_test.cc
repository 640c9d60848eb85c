// SPDX-License-Identifier: Apache-2.0
// A memory of which keys were forgotten, against one that never had those tokens; and what
// forgetting chooses by, against the readout that the trace has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "language/decoder.h"
#include "language/test_decoders.h"

namespace fovea {
namespace {

using test::part_of;
using test::RandomPrompt;

constexpr int kBefore = 5;  // tokens of text
constexpr Grid kGrid{9, 11};
constexpr int64_t kVisual = 99;
constexpr int kAfter = 37;

struct Case {
  explicit Case(int layers)
      : config(test::config_of({.layers = layers})),
        tensors(test::random_tensors(config, 3)),
        source(test::source_of(tensors, WeightFormat::kF32)),
        decoder(Decoder::build(config, source)),
        prompt(config.text, {{kBefore, kGrid}}, kAfter, 1, 4) {}

  // Reads tokens [begin, end) of the prompt; the logits after the last.
  std::vector<float> read(DecoderMemory& memory, int64_t begin, int64_t end) {
    std::vector<VisualSpan> kept;
    const TokenRun run = prompt.run();
    const TokenRun part = part_of(run, static_cast<size_t>(begin), static_cast<size_t>(end), kept);
    auto logits = decoder->forward(threads, part, memory);
    EXPECT_TRUE(logits);
    return {logits->begin(), logits->end()};
  }

  ModelConfig config;
  test::StoredTensors tensors;
  TensorSource source;
  Result<Decoder> decoder;
  RandomPrompt prompt;
  Threads threads{2};
};

// Logits of size about 1. Keys were computed in runs of other lengths: sums in other orders.
void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 5e-5) << what << ", logit " << i;
}

// The last visual tokens go, which no token that stays has seen: as if they had never been there.
TEST(DecoderForgets, WhatIsLeftIsAsIfTheTokensHadBeenLeftOut) {
  for (const int layers : {1, 3})
    for (const int64_t left : {1, 40, 98}) {
      Case c(layers);
      DecoderMemory whole;
      c.read(whole, 0, kBefore + kVisual);
      KeptRows kept;
      for (int64_t t = 0; t < kVisual; ++t)
        kept.row_of.push_back(t < left ? static_cast<int32_t>(t) : KeptRows::kForgotten);
      kept.rows = left;
      whole.keep(kBefore, std::vector<KeptRows>(static_cast<size_t>(layers), kept));
      EXPECT_EQ(whole.tokens(), kBefore + kVisual) << "tokens count as before";
      DecoderMemory without;
      c.read(without, 0, kBefore + left);

      // A question, the steps of an answer, another question, the same from the first again.
      const int64_t text = kBefore + kVisual;
      const std::vector<std::pair<int64_t, int64_t>> runs = {{text, text + 10},
                                                             {text + 10, text + 11},
                                                             {text + 11, text + 12},
                                                             {text + 12, text + 30}};
      for (int again = 0; again < 2; ++again) {
        for (const auto& [begin, end] : runs) {
          expect_near(c.read(whole, begin, end), c.read(without, begin, end),
                      fmt::format("{} layers, {} left, tokens from {}", layers, left, begin));
          EXPECT_EQ(whole.tokens(), end);
        }
        whole.truncate(text);
        without.truncate(kBefore + left);
      }
      EXPECT_EQ(whole.layers.front().size(), kBefore + left);
      whole.truncate(text - 1);
      EXPECT_EQ(whole.tokens(), 0) << "inside of what was forgotten there is nothing to go back to";
    }
}

// Each layer may keep other tokens; in a layer of its own, none depends on another.
TEST(DecoderForgets, AnyTokensOfOneLayerMayGo) {
  Case c(1);
  DecoderMemory whole;
  c.read(whole, 0, kBefore + kVisual);
  KeptRows kept;
  std::vector<int64_t> left;
  for (int64_t t = 0; t < kBefore + kVisual; ++t) {
    const bool stays = t < kBefore || t % 7 == 2 || t % 11 == 5;
    if (t >= kBefore)
      kept.row_of.push_back(stays ? static_cast<int32_t>(kept.rows++) : KeptRows::kForgotten);
    if (stays) left.push_back(t);
  }
  whole.keep(kBefore, {&kept, 1});
  DecoderMemory without;
  for (const int64_t t : left) c.read(without, t, t + 1);
  ASSERT_EQ(whole.layers.front().size(), without.layers.front().size());
  expect_near(c.read(whole, kBefore + kVisual, kBefore + kVisual + kAfter),
              c.read(without, kBefore + kVisual, kBefore + kVisual + kAfter), "one layer");
}

// Tokens that are the same n times over, made one: the bias makes it count for all.
TEST(DecoderForgets, AMergedRowCountsForAllItsTokens) {
  Case c(2);
  DecoderMemory many;
  DecoderMemory merged;
  c.read(many, 0, kBefore);
  c.read(merged, 0, kBefore);
  std::mt19937 random(9);
  const auto width = static_cast<int64_t>(c.config.text.num_kv_heads * c.config.text.head_dim);
  std::vector<float> row(static_cast<size_t>(width));
  KeptRows kept;
  for (int32_t group = 0; group < 4; ++group) {
    for (float& x : row) x = static_cast<float>(random() % 1000) / 500 - 1;
    for (int32_t copy = 0; copy <= 3 * group; ++copy) {
      kept.row_of.push_back(group);
      for (DecoderMemory* memory : {&many, &merged})
        for (KeyValues& layer : memory->layers)
          layer.append(row.data(), width, row.data(), width, 1);
    }
  }
  kept.rows = 4;
  merged.keep(kBefore, std::vector<KeptRows>(2, kept));
  EXPECT_EQ(merged.layers.front().size(), kBefore + 4);
  ASSERT_NE(merged.layers.front().bias(), nullptr);
  const int64_t text = kBefore + kVisual;
  for (const auto& [begin, end] : {std::pair{text, text + 12}, {text + 12, text + 13}}) {
    expect_near(c.read(merged, begin, end), c.read(many, begin, end), "merged");
  }
}

// Steps of sequences that forgot and of others share a batch: each has the bits it has alone.
TEST(DecoderForgets, StepsOfSeveralSequencesAreAsAlone) {
  Case c(3);
  const int64_t text = kBefore + kVisual;
  const auto memory_of = [&](int32_t every) {
    DecoderMemory memory;
    c.read(memory, 0, text + 3);
    std::vector<KeptRows> kept(3);
    for (int32_t layer = 0; layer < 3 && every > 0; ++layer)
      for (int32_t t = 0; t < kVisual; ++t)
        kept[static_cast<size_t>(layer)].row_of.push_back(
            t % (every + layer) == 0 ? static_cast<int32_t>(kept[static_cast<size_t>(layer)].rows++)
                                     : KeptRows::kForgotten);
    if (every > 0) memory.keep(kBefore, kept);
    return memory;
  };
  std::vector<DecoderMemory> memories;
  std::vector<ForwardRequest> together;
  std::vector<std::vector<float>> alone;
  for (const int32_t every : {0, 2, 5, 30}) {
    DecoderMemory memory = memory_of(every);
    alone.push_back(c.read(memory, text + 3, text + 4));
    memories.push_back(memory_of(every));
  }
  std::vector<VisualSpan> none;
  const TokenRun run = c.prompt.run();
  for (DecoderMemory& memory : memories)
    together.push_back(
        {part_of(run, static_cast<size_t>(text) + 3, static_cast<size_t>(text) + 4, none),
         &memory,
         {},
         true});
  c.decoder->work(c.threads, together);
  for (size_t i = 0; i < together.size(); ++i) {
    ASSERT_TRUE(together[i].done());
    EXPECT_EQ(std::vector<float>(together[i].logits.begin(), together[i].logits.end()), alone[i]);
  }
}

TEST(DecoderForgets, WhatItChoosesByIsTheAttentionOfEachLayer) {
  constexpr int kLayers = 3;
  Case c(kLayers);
  const TokenRun run = c.prompt.run();
  const auto tokens = run.ids.size();
  for (const int chunk : {0, 7}) {
    KeyReadout keys{tokens - 20, tokens, kBefore, kBefore + kVisual};
    ForwardOptions options;
    options.chunk_tokens = chunk;
    options.keys = &keys;
    DecoderMemory memory;
    ASSERT_TRUE(c.decoder->forward(c.threads, run, memory, options));
    KeyReadout rated = keys;
    rated.by_raters = true;
    options.keys = &rated;
    DecoderMemory other;
    ASSERT_TRUE(c.decoder->forward(c.threads, run, other, options));
    for (int layer = 0; layer < kLayers; ++layer) {
      AttentionReadout readout{{layer}, tokens - 20, tokens, kBefore, kBefore + kVisual, {}};
      ForwardOptions plain;
      plain.chunk_tokens = chunk;
      plain.readout = &readout;
      DecoderMemory third;
      ASSERT_TRUE(c.decoder->forward(c.threads, run, third, plain));
      const KeyReadout::Layer& got = keys.layers[static_cast<size_t>(layer)];
      for (size_t i = 0; i < readout.mass.size(); ++i)
        ASSERT_NEAR(got.mass[i], readout.mass[i], 1e-6) << "layer " << layer << ", key " << i;
      EXPECT_GT(got.density, 0.0);
      EXPECT_LE(got.density, 1.0);
      EXPECT_NE(rated.layers[static_cast<size_t>(layer)].mass, got.mass);
    }
    // Who counts does so alike, and all of them as much as all queries would.
    const double sum = std::accumulate(rated.query_parts.begin(), rated.query_parts.end(), 0.0);
    EXPECT_NEAR(sum, 20, 1e-3);
    EXPECT_GT(std::count(rated.query_parts.begin(), rated.query_parts.end(), 0.0f), 0);
  }
}

}  // namespace
}  // namespace fovea
