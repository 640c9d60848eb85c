// SPDX-License-Identifier: Apache-2.0
// The decoder on a GPU against the CPU's, both with the same bf16 weights.
#include "language/decoder_cuda.h"

#include <algorithm>
#include <numeric>

#include "device/cuda/test_accelerator.h"
#include "language/test_decoders.h"
#include "vision/tower_cuda.h"

namespace fovea {
namespace {

using test::DecoderSize;
using test::RandomPrompt;

// The CPU rounds weights alone to bf16, the GPU also what goes into products and attention, each
// time by up to 2^-9 = 0.2 %. Independent of each other, a few layers of them add up to under 1 %.
constexpr double kBf16 = 2e-2;
constexpr double kLogitsCosine = 0.999;
// Two logits that lie nearer than that part of the largest may change places.
constexpr float kTie = 2e-2f;

std::span<const float> all_of(const Buffer<float>& buffer) {
  return {buffer.data(), buffer.size()};
}

void expect_logits(std::span<const float> expected, std::span<const float> actual, size_t vocab,
                   const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t row = 0; row < expected.size() / vocab; ++row) {
    const auto here = expected.subspan(row * vocab, vocab);
    const auto there = actual.subspan(row * vocab, vocab);
    EXPECT_GE(cosine_of(here, there), kLogitsCosine) << what << ", row " << row;
    const auto best = std::max_element(here.begin(), here.end());
    const auto found = std::max_element(there.begin(), there.end()) - there.begin();
    EXPECT_LE(*best - here[static_cast<size_t>(found)], kTie * std::abs(*best))
        << what << ", row " << row << ": " << best - here.begin() << " against " << found;
  }
}

class DecoderCuda : public AcceleratorTest {
 protected:
  struct Pair {
    ModelConfig config;
    Decoder cpu;
    Decoder gpu;

    size_t vocab() const { return static_cast<size_t>(config.text.vocab_size); }
  };
  Pair pair_of(const DecoderSize& size, uint32_t seed = 1) {
    const ModelConfig config = test::config_of(size);
    const test::StoredTensors tensors = test::random_tensors(config, seed);
    const TensorSource source = test::source_of(tensors, WeightFormat::kBf16);
    return {config, *Decoder::build(config, source), *Decoder::build(config, source, device_)};
  }

  VisualTokens on_gpu(const VisualTokens& tokens) {
    auto there = std::make_shared<TokensOnDevice>();
    there->taps = static_cast<int>(tokens.deepstack.size());
    std::vector<bf16> values;
    const auto add = [&](const Buffer<float>& part) {
      for (const float value : part) values.push_back(to_bf16(value));
    };
    add(tokens.features);
    for (const Buffer<float>& part : tokens.deepstack) add(part);
    there->values = on_device(values);
    VisualTokens result;
    result.count = tokens.count;
    result.width = tokens.width;
    result.on_device = std::move(there);
    return result;
  }

  // The same prompt whose images lie on the GPU.
  struct PromptThere {
    std::deque<VisualTokens> images;
    std::vector<VisualSpan> spans;
    TokenRun run;
  };
  PromptThere there(const RandomPrompt& prompt) {
    PromptThere copy;
    for (const VisualSpan& span : prompt.spans) {
      copy.images.push_back(on_gpu(*span.tokens));
      copy.spans.push_back({span.at, &copy.images.back(), span.first, span.count});
    }
    copy.run = {prompt.ids, prompt.positions.tokens, copy.spans};
    return copy;
  }

  Buffer<float> forward(const Decoder& decoder, const TokenRun& run, DecoderMemory& memory,
                        const ForwardOptions& options = {}) {
    Result<Buffer<float>> logits = decoder.forward(threads_, run, memory, options);
    EXPECT_TRUE(logits) << (logits ? "" : logits.error().message);
    return logits ? *std::move(logits) : Buffer<float>();
  }
  Buffer<float> step(const Decoder& decoder, int id, float at, DecoderMemory& memory) {
    const TokenPosition position = text_position(at);
    return forward(decoder, {{&id, 1}, {&position, 1}, {}}, memory);
  }

  Threads threads_{1};
};

// Two images of odd grids with text around them.
RandomPrompt prompt_for(const ModelConfig& config, int taps, uint32_t seed = 3) {
  return {config.text, {{5, {3, 5}}, {2, {7, 1}}}, 6, taps, seed};
}

std::vector<DecoderSize> sizes() {
  return {{},
          {.layers = 1, .hidden = 8, .heads = 1, .kv_heads = 1, .head_dim = 8, .intermediate = 8},
          {.layers = 3, .heads = 6, .kv_heads = 1, .head_dim = 8, .bias = true, .tied = false},
          {.hidden = 64, .heads = 2, .kv_heads = 2, .head_dim = 64, .vocab = 300, .tied = false},
          {.layers = 2, .hidden = 40, .heads = 5, .kv_heads = 5, .head_dim = 24, .bias = true},
          {.layers = 1, .hidden = 72, .heads = 4, .kv_heads = 1, .head_dim = 128, .vocab = 7}};
}

TEST_P(DecoderCuda, EveryTokenHasTheLogitsOfTheCpu) {
  uint32_t seed = 10;
  for (const DecoderSize& size : sizes()) {
    const Pair pair = pair_of(size, ++seed);
    // Taps beyond the last layer go nowhere.
    const RandomPrompt prompt = prompt_for(pair.config, 2, seed);
    const PromptThere copy = there(prompt);
    const std::string what = "size " + std::to_string(seed - 11);
    const ForwardOptions options{.all_logits = true};
    DecoderMemory here_memory;
    DecoderMemory there_memory;
    const Buffer<float> expected = forward(pair.cpu, prompt.run(), here_memory, options);
    const Buffer<float> actual = forward(pair.gpu, copy.run, there_memory, options);
    expect_logits(all_of(expected), all_of(actual), pair.vocab(), what);
    EXPECT_EQ(there_memory.tokens(), here_memory.tokens());
    EXPECT_TRUE(there_memory.layers.empty()) << "keys and values are the device's";
    for (int i = 0; i < 4; ++i) {
      const float at = prompt.positions.next + static_cast<float>(i);
      expect_logits(all_of(step(pair.cpu, i % size.vocab, at, here_memory)),
                    all_of(step(pair.gpu, i % size.vocab, at, there_memory)), pair.vocab(),
                    what + ", step " + std::to_string(i));
    }
  }
}

TEST_P(DecoderCuda, ChunksGiveTheLogitsOfTheWhole) {
  const Pair pair = pair_of({.hidden = 24, .intermediate = 40});
  const RandomPrompt prompt = prompt_for(pair.config, 2);
  const PromptThere copy = there(prompt);
  DecoderMemory memory;
  const Buffer<float> expected = forward(pair.cpu, prompt.run(), memory, {.all_logits = true});
  for (const int chunk : {3, 7, 16, 33}) {
    DecoderMemory own;
    const Buffer<float> logits =
        forward(pair.gpu, copy.run, own, {.chunk_tokens = chunk, .all_logits = chunk % 2 == 1});
    expect_logits(all_of(expected).last(logits.size()), all_of(logits), pair.vocab(),
                  "chunks of " + std::to_string(chunk));
    EXPECT_EQ(own.tokens(), memory.tokens());
  }
}

TEST_P(DecoderCuda, ByPrefixImagesAreSeenWholeInAnyChunks) {
  const Pair pair = pair_of({.layers = 3, .hidden = 24, .intermediate = 40});
  const RandomPrompt prompt = prompt_for(pair.config, 2);
  const PromptThere copy = there(prompt);
  std::vector<TokenRange> images;
  for (const VisualSpan& span : prompt.spans)
    images.push_back({static_cast<int64_t>(span.at), static_cast<int64_t>(span.at) + span.count});
  for (const char* kinds : {"prefix", "dense,prefix"}) {
    ForwardOptions options{.all_logits = true};
    options.attention = *parse_attention(kinds, AttentionPlace::kText, 3);
    options.images = images;
    DecoderMemory memory;
    const Buffer<float> expected = forward(pair.cpu, prompt.run(), memory, options);
    DecoderMemory densely;
    EXPECT_GT(relative_error(all_of(forward(pair.cpu, prompt.run(), densely, {.all_logits = true})),
                             all_of(expected)),
              0.05)
        << "images make no difference";
    for (const int chunk : {0, 3, 16}) {
      options.chunk_tokens = chunk;
      DecoderMemory own;
      expect_logits(all_of(expected), all_of(forward(pair.gpu, copy.run, own, options)),
                    pair.vocab(), std::string(kinds) + " by " + std::to_string(chunk));
    }
  }
}

TEST_P(DecoderCuda, MemoryGrowsTokenByToken) {
  const Pair pair = pair_of({.hidden = 24, .kv_heads = 1, .head_dim = 8, .intermediate = 24});
  const RandomPrompt prompt = prompt_for(pair.config, 1);
  const PromptThere copy = there(prompt);
  DecoderMemory memory;
  const Buffer<float> expected = forward(pair.cpu, prompt.run(), memory, {.all_logits = true});
  DecoderMemory growing;
  std::vector<VisualSpan> spans;
  size_t moved = 0;
  for (size_t t = 0; t < prompt.ids.size(); ++t) {
    const size_t bytes = growing.bytes();
    const Buffer<float> logits =
        forward(pair.gpu, test::part_of(copy.run, t, t + 1, spans), growing);
    expect_logits(all_of(expected).subspan(t * pair.vocab(), pair.vocab()), all_of(logits),
                  pair.vocab(), "token " + std::to_string(t));
    if (growing.bytes() > bytes) ++moved;
  }
  EXPECT_GE(moved, 4u);
  EXPECT_LT(moved, prompt.ids.size() / 2) << "it grows by half";
  DecoderMemory reserved;
  reserved.reserve(100);
  forward(pair.gpu, copy.run, reserved);
  const size_t bytes = reserved.bytes();
  for (float at = 0; at < 5; ++at) step(pair.gpu, 1, prompt.positions.next + at, reserved);
  EXPECT_EQ(reserved.bytes(), bytes);
  const TextConfig& text = pair.config.text;
  EXPECT_EQ(bytes, 100u * 2 * static_cast<size_t>(text.num_layers * text.num_kv_heads) *
                       static_cast<size_t>(text.head_dim) * sizeof(bf16));
}

TEST_P(DecoderCuda, WhatWasForgottenLeavesNoTrace) {
  const Pair pair = pair_of({.bias = true});
  const RandomPrompt prompt = prompt_for(pair.config, 2);
  const PromptThere copy = there(prompt);
  const size_t kept = 13;  // within the first image
  std::vector<VisualSpan> spans;
  DecoderMemory memory;
  forward(pair.gpu, test::part_of(copy.run, 0, kept, spans), memory);
  for (int i = 0; i < 5; ++i) step(pair.gpu, 5 + i, 100.0f + static_cast<float>(i), memory);
  memory.truncate(static_cast<int64_t>(kept));
  const TokenRun rest = test::part_of(copy.run, kept, prompt.ids.size(), spans);
  const Buffer<float> after = forward(pair.gpu, rest, memory);
  DecoderMemory fresh;
  std::vector<VisualSpan> first;
  forward(pair.gpu, test::part_of(copy.run, 0, kept, first), fresh);
  const Buffer<float> expected = forward(pair.gpu, rest, fresh);
  EXPECT_TRUE(std::ranges::equal(all_of(expected), all_of(after)));
  DecoderMemory whole;
  expect_logits(all_of(forward(pair.cpu, prompt.run(), whole)), all_of(after), pair.vocab(),
                "rest");
}

// A graph is recorded the second time and replayed from then on.
TEST_P(DecoderCuda, TheSameCallGivesTheSameBitsEachTime) {
  const Pair pair = pair_of({.tied = false});
  const RandomPrompt prompt = prompt_for(pair.config, 2);
  const PromptThere copy = there(prompt);
  std::vector<Buffer<float>> wholes;
  std::vector<Buffer<float>> steps;
  for (int time = 0; time < 4; ++time) {
    DecoderMemory memory;
    wholes.push_back(forward(pair.gpu, copy.run, memory));
    steps.push_back(step(pair.gpu, 9, prompt.positions.next, memory));
    EXPECT_TRUE(std::ranges::equal(all_of(wholes.front()), all_of(wholes.back()))) << time;
    EXPECT_TRUE(std::ranges::equal(all_of(steps.front()), all_of(steps.back()))) << time;
  }
}

TEST_P(DecoderCuda, StoppingLeavesTheMemoryAsItWas) {
  const Pair pair = pair_of({});
  const RandomPrompt prompt = prompt_for(pair.config, 2);
  const PromptThere copy = there(prompt);
  std::vector<VisualSpan> spans;
  DecoderMemory memory;
  forward(pair.gpu, test::part_of(copy.run, 0, 9, spans), memory);
  const TokenRun rest = test::part_of(copy.run, 9, prompt.ids.size(), spans);
  ForwardOptions options{.chunk_tokens = 8};
  for (int allowed = 0; allowed < 3; ++allowed) {
    int asked = 0;
    options.keep_going = [&] { return asked++ < allowed; };
    EXPECT_TRUE(forward(pair.gpu, rest, memory, options).empty());
    EXPECT_EQ(memory.tokens(), 9);
  }
  DecoderMemory whole;
  expect_logits(all_of(forward(pair.cpu, prompt.run(), whole)),
                all_of(forward(pair.gpu, rest, memory)), pair.vocab(), "after stops");
}

TEST_P(DecoderCuda, ReadingGivesTheMassOfTheCpu) {
  const Pair pair = pair_of(
      {.layers = 3, .hidden = 16, .heads = 6, .kv_heads = 2, .head_dim = 8, .intermediate = 24});
  const RandomPrompt prompt = prompt_for(pair.config, 2);
  const PromptThere copy = there(prompt);
  const size_t count = prompt.ids.size();
  const auto keys = static_cast<int64_t>(count);
  const std::vector<AttentionReadout> asked = {{{1}, count - 6, count, 5, 20, {}},
                                               {{0, 2}, 0, count, 0, keys, {}},
                                               {{0, 1, 2}, count - 1, count, 22, 23, {}}};
  for (size_t i = 0; i < asked.size(); ++i) {
    AttentionReadout expected = asked[i];
    expected.wants_last = true;
    DecoderMemory memory;
    ASSERT_TRUE(*pair.cpu.read(threads_, prompt.run(), memory, {.readout = &expected}));
    for (const int chunk : {0, 12}) {
      AttentionReadout readout = asked[i];
      readout.wants_last = chunk != 0 || i != 1;
      DecoderMemory own;
      ASSERT_TRUE(
          *pair.gpu.read(threads_, copy.run, own, {.chunk_tokens = chunk, .readout = &readout}));
      EXPECT_LE(relative_error(expected.mass, readout.mass), kBf16) << i << ", chunk " << chunk;
      if (readout.wants_last) {
        EXPECT_LE(relative_error(expected.last_mass, readout.last_mass), kBf16) << i;
      }
      const auto sum = std::accumulate(readout.mass.begin(), readout.mass.end(), 0.0);
      if (asked[i].key_end - asked[i].key_begin == keys) {
        EXPECT_NEAR(sum, 1, 1e-5);
      }
    }
  }
}

TEST_P(DecoderCuda, AFewLayersLeaveTheMemoryAndGiveTheirHiddenState) {
  const Pair pair =
      pair_of({.layers = 3, .hidden = 16, .head_dim = 8, .intermediate = 24, .bias = true});
  const RandomPrompt prompt = prompt_for(pair.config, 2);
  const PromptThere copy = there(prompt);
  DecoderMemory memory;
  const Buffer<float> before = forward(pair.gpu, copy.run, memory);
  for (int layers = 1; layers <= 3; ++layers) {
    HiddenReadout expected{.layers = layers};
    DecoderMemory there_memory;
    ASSERT_TRUE(*pair.cpu.read(threads_, prompt.run(), there_memory, {.hidden = &expected}));
    for (const int chunk : {0, 10}) {
      HiddenReadout whole{.layers = layers};
      HiddenReadout part{.layers = layers};
      AttentionReadout mass{{layers - 1}, 3, prompt.ids.size(), 0, 20, {}};
      DecoderMemory own;
      ASSERT_TRUE(
          *pair.gpu.read(threads_, copy.run, own, {.chunk_tokens = chunk, .hidden = &whole}));
      EXPECT_LE(relative_error(all_of(expected.hidden), all_of(whole.hidden)), kBf16) << layers;
      EXPECT_EQ(own.tokens(), memory.tokens());
      DecoderMemory passing;
      ASSERT_TRUE(*pair.gpu.read(
          threads_, copy.run, passing,
          {.chunk_tokens = chunk, .readout = &mass, .hidden = &part, .layers = layers}));
      EXPECT_LE(relative_error(all_of(expected.hidden), all_of(part.hidden)), kBf16) << layers;
      EXPECT_EQ(passing.tokens(), 0);
      // Behind what is there, which stays.
      ASSERT_TRUE(*pair.gpu.read(threads_, copy.run, own, {.layers = layers}));
      EXPECT_EQ(own.tokens(), memory.tokens());
      EXPECT_TRUE(std::ranges::equal(all_of(step(pair.gpu, 7, prompt.positions.next, own)),
                                     all_of(step(pair.gpu, 7, prompt.positions.next, memory))) ||
                  chunk > 0)
          << layers;
      memory.truncate(static_cast<int64_t>(prompt.ids.size()));
    }
  }
}

TEST_P(DecoderCuda, LayersAreSeenAsTheyAreOnTheCpu) {
  const Pair pair = pair_of({.layers = 3});
  const RandomPrompt prompt = prompt_for(pair.config, 3);
  const PromptThere copy = there(prompt);
  const auto width = pair.config.text.hidden_size;
  const auto states = [&](const Decoder& decoder, const TokenRun& run) {
    std::vector<std::vector<float>> seen;
    ForwardOptions options{.chunk_tokens = 12};
    options.on_layer = [&](int, int64_t, int64_t tokens, const float* hidden) {
      seen.emplace_back(hidden, hidden + tokens * width);
    };
    DecoderMemory memory;
    forward(decoder, run, memory, options);
    return seen;
  };
  const auto expected = states(pair.cpu, prompt.run());
  const auto actual = states(pair.gpu, copy.run);
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_error(expected[i], actual[i]), kBf16) << "chunk and layer " << i;
}

// Wherever memory runs out, the call is an error that says so, and the next is as if it had not
// been.
TEST_P(DecoderCuda, NoMemoryIsAnErrorAndNoMore) {
  if (!kEmulated) GTEST_SKIP() << "memory runs out when it should in an emulation alone";
  const DecoderSize size{.layers = 1, .hidden = 16, .heads = 2, .head_dim = 8, .intermediate = 8};
  RandomPrompt prompt(test::config_of(size).text, {{2, {1, 3}}}, 2, 1, 3);
  const PromptThere copy = there(prompt);
  std::vector<VisualSpan> spans;
  const TokenRun first = test::part_of(copy.run, 0, 2, spans);
  int failures = 0;
  std::vector<float> expected;
  for (int allowed = 24; allowed >= 0; --allowed) {
    const Pair pair = pair_of(size);
    DecoderMemory memory;
    forward(pair.gpu, first, memory);
    std::vector<VisualSpan> others;
    const TokenRun rest = test::part_of(copy.run, 2, prompt.ids.size(), others);
    AttentionReadout readout{{0}, 0, rest.ids.size(), 0, 4, {}};
    limit_allocations(allowed);
    const auto logits = pair.gpu.forward(threads_, rest, memory, {.readout = &readout});
    limit_allocations(-1);
    if (logits) {
      expected.assign(logits->begin(), logits->end());
      continue;
    }
    ++failures;
    EXPECT_NE(logits.error().message.find("memory"), std::string::npos) << logits.error().message;
    ASSERT_EQ(memory.tokens(), 2);
    EXPECT_TRUE(std::ranges::equal(expected, all_of(forward(pair.gpu, rest, memory))))
        << "after " << allowed << " allocations";
  }
  EXPECT_GT(failures, 8);
  EXPECT_LT(failures, 25);
}

TEST_P(DecoderCuda, SizesThatAGpuCannotTakeAreRefused) {
  const auto refusal = [&](const DecoderSize& size) {
    const auto made = CudaDecoder::make(device_, test::config_of(size).text, {});
    EXPECT_FALSE(made);
    EXPECT_EQ(made.error().kind, Error::Kind::kBadInput);
    return made.error().message;
  };
  EXPECT_EQ(refusal({.hidden = 36}),
            "a GPU cannot run this model: text_config.hidden_size is 36, which is not a multiple "
            "of 8; use device cpu");
  EXPECT_NE(refusal({.head_dim = 12}).find("head_dim is 12"), std::string::npos);
  EXPECT_NE(refusal({.head_dim = 136}).find("at most 128"), std::string::npos);
  EXPECT_NE(refusal({.intermediate = 33}).find("intermediate_size is 33"), std::string::npos);
  EXPECT_NE(refusal({.hidden = 8200}).find("at most 8192"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(kernels, DecoderCuda, testing::ValuesIn(kernel_choices()),
                         kernel_choice_name);

}  // namespace
}  // namespace fovea
