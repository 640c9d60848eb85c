// SPDX-License-Identifier: Apache-2.0
// Several requests in one call of the decoder: each is as it would be alone.
#include "language/decoder_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

#include "language/test_decoder_case.h"
#include "memory/key_values.h"
#include "ops/matmul.h"

namespace fovea {
namespace {

using test::DecoderCase;

std::vector<float> values_of(const Buffer<float>& buffer) { return {buffer.begin(), buffer.end()}; }

// A sequence with a prompt of its own in memory, and the tokens that follow.
struct Sequence {
  DecoderMemory memory;
  int64_t kept = 0;
  std::vector<int> ids;
  std::vector<TokenPosition> positions;
  std::vector<std::vector<float>> alone;  // the logits after each, one token at a time

  TokenRun step(size_t index) const {
    return {std::span(ids).subspan(index, 1), std::span(positions).subspan(index, 1), {}};
  }
  TokenRun all() const { return {ids, positions, {}}; }
};

ForwardRequest request_for(const TokenRun& run, DecoderMemory& memory) {
  return {run, &memory, {}, /*wants_logits=*/true};
}

class Sequences {
 public:
  Sequences(DecoderCase& c, int count, int steps) : case_(c), random_(7) {
    for (int i = 0; i < count; ++i) add(1 + i * 5 % 23, steps);
  }

  // Steps of the sequences in `order`, all in one call, against each alone.
  void expect_alone(const std::vector<size_t>& order, const std::string& what) {
    for (Sequence& one : all) one.memory.truncate(one.kept);
    const size_t steps = all.front().ids.size();
    std::vector<ForwardRequest> requests;
    for (const size_t i : order) requests.push_back(request_for({}, all[i].memory));
    for (size_t step = 0; step < steps; ++step) {
      for (size_t r = 0; r < order.size(); ++r) requests[r].run = all[order[r]].step(step);
      case_.decoder.work(case_.threads, requests);
      for (size_t r = 0; r < order.size(); ++r) {
        ASSERT_TRUE(requests[r].done());
        ASSERT_EQ(values_of(requests[r].logits), all[order[r]].alone[step])
            << what << ", " << order.size() << " sequences, the one at " << r << ", step " << step;
      }
    }
  }

  std::deque<Sequence> all;

 private:
  int random_id() {
    return static_cast<int>(random_() % static_cast<unsigned>(case_.golden.text().vocab_size));
  }
  void add(int prompt_tokens, int steps) {
    Sequence& one = all.emplace_back();
    std::vector<int> prompt;
    std::vector<TokenPosition> positions;
    for (int i = 0; i < prompt_tokens; ++i) {
      prompt.push_back(random_id());
      positions.push_back(text_position(static_cast<float>(i)));
    }
    EXPECT_TRUE(*case_.decoder.read(case_.threads, {prompt, positions, {}}, one.memory));
    one.kept = one.memory.tokens();
    for (int i = 0; i < steps; ++i) {
      one.ids.push_back(random_id());
      one.positions.push_back(text_position(static_cast<float>(prompt_tokens + i)));
    }
    for (size_t i = 0; i < one.ids.size(); ++i)
      one.alone.push_back(
          values_of(*case_.decoder.forward(case_.threads, one.step(i), one.memory)));
    one.memory.truncate(one.kept);
  }

  DecoderCase& case_;
  std::mt19937 random_;
};

std::vector<size_t> first_of(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

// Heads in groups, biases, a head of its own; odd sizes.
class DecoderSteps : public testing::TestWithParam<int> {};

TEST_P(DecoderSteps, OfAnyBatchHaveTheBitsTheyHaveAlone) {
  std::mt19937 random(3);
  for (const auto format :
       {std::optional<WeightFormat>(), {WeightFormat::kBf16}, {WeightFormat::kInt8}}) {
    DecoderCase c(GetParam(), format);
    Sequences sequences(c, static_cast<int>(kFewRows) + 3, 2);
    const std::string what = format ? std::string(weight_format_name(*format)) : "as stored";
    for (const size_t count : {1, 2, 3, 4, 5, 7, 8, 13, 32, 33, 35}) {
      std::vector<size_t> order = first_of(count);
      sequences.expect_alone(order, what);
      std::shuffle(order.begin(), order.end(), random);
      sequences.expect_alone(order, what + ", shuffled");
    }
  }
}

TEST_P(DecoderSteps, OfAnyBatchHaveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 2, 3, 5}) {
    DecoderCase c(GetParam(), WeightFormat::kInt8, threads);
    Sequences sequences(c, 9, 2);
    sequences.expect_alone(first_of(9), std::to_string(threads) + " threads");
    for (size_t i = 0; i < sequences.all.size(); ++i) {
      if (threads == 1) expected.push_back(sequences.all[i].alone.back());
      EXPECT_EQ(sequences.all[i].alone.back(), expected[i]) << threads << " threads";
    }
  }
}

// Every second step is read out: the others, and all logits, are as without.
TEST_P(DecoderSteps, OfAnyBatchAttendAsTheyDoAlone) {
  DecoderCase c(GetParam());
  Sequences sequences(c, static_cast<int>(kFewRows) + 3, 1);
  const int last_layer = c.golden.text().num_layers - 1;
  const auto readout_of = [&](const Sequence& one) {
    return AttentionReadout{{0, last_layer}, 0, 1, one.kept / 2, one.kept + 1, {}};
  };
  std::vector<AttentionReadout> alone;
  for (Sequence& one : sequences.all) {
    alone.push_back(readout_of(one));
    const auto logits =
        c.decoder.forward(c.threads, one.step(0), one.memory, {.readout = &alone.back()});
    EXPECT_EQ(values_of(*logits), one.alone[0]);
    EXPECT_GT(std::accumulate(alone.back().mass.begin(), alone.back().mass.end(), 0.0), 0);
    one.memory.truncate(one.kept);
  }
  std::vector<AttentionReadout> together;
  std::vector<ForwardRequest> requests;
  for (Sequence& one : sequences.all) {
    together.push_back(readout_of(one));
    requests.push_back(request_for(one.step(0), one.memory));
  }
  for (size_t i = 0; i < requests.size(); i += 2) requests[i].options.readout = &together[i];
  c.decoder.work(c.threads, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(requests[i].done());
    EXPECT_EQ(values_of(requests[i].logits), sequences.all[i].alone[0]) << i;
    EXPECT_EQ(together[i].mass, i % 2 == 0 ? alone[i].mass : std::vector<float>()) << i;
  }
}

TEST_P(DecoderSteps, ThatAreStoppedLeaveTheOthersAsTheyAre) {
  DecoderCase c(GetParam());
  Sequences sequences(c, 4, 1);
  const int layers = c.golden.text().num_layers;
  for (int allowed = 0; allowed <= layers; ++allowed) {
    std::vector<ForwardRequest> requests;
    for (Sequence& one : sequences.all) {
      one.memory.truncate(one.kept);
      requests.push_back(request_for(one.step(0), one.memory));
    }
    int asked = 0;
    requests[0].options.keep_going = [&] { return asked++ < allowed; };
    requests[2].options.keep_going = [] { return false; };
    requests[3].options.keep_going = [] { return true; };
    c.decoder.work(c.threads, requests);
    EXPECT_EQ(asked, std::min(allowed + 1, layers));
    for (size_t i = 0; i < requests.size(); ++i) {
      const bool stopped = i == 2 || (i == 0 && allowed < layers);
      EXPECT_TRUE(requests[i].status);
      EXPECT_EQ(requests[i].stopped, stopped) << i << ", " << allowed;
      const int64_t kept = sequences.all[i].kept;
      for (const KeyValues& layer : sequences.all[i].memory.layers)
        EXPECT_EQ(layer.size(), stopped ? kept : kept + 1);
      if (!stopped) {
        EXPECT_EQ(values_of(requests[i].logits), sequences.all[i].alone[0]);
      }
    }
  }
  sequences.expect_alone(first_of(4), "afterwards");
}

// Prompts, steps and what is read out share a call.
TEST_P(DecoderSteps, MayStandBesideLongerRuns) {
  DecoderCase c(GetParam());
  DecoderMemory alone_memory;
  const std::vector<float> alone = values_of(c.forward(alone_memory));
  HiddenReadout alone_hidden{1, {}};
  DecoderMemory passing;
  ASSERT_TRUE(*c.decoder.read(c.threads, c.run(), passing, {.hidden = &alone_hidden, .layers = 1}));

  Sequences sequences(c, 3, 5);
  std::vector<std::vector<float>> runs;
  for (Sequence& one : sequences.all) {
    runs.push_back(values_of(*c.decoder.forward(c.threads, one.all(), one.memory)));
    one.memory.truncate(one.kept);
  }
  DecoderMemory memory;
  HiddenReadout hidden{1, {}};
  std::vector<ForwardRequest> requests;
  requests.push_back(request_for(sequences.all[0].step(0), sequences.all[0].memory));
  requests.push_back(request_for(c.run(), memory));
  requests.push_back(request_for(sequences.all[1].all(), sequences.all[1].memory));
  requests.push_back({c.run(), &passing, {.hidden = &hidden, .layers = 1}});
  requests.push_back(request_for(sequences.all[2].step(0), sequences.all[2].memory));
  c.decoder.work(c.threads, requests);
  for (const ForwardRequest& request : requests) EXPECT_TRUE(request.done());
  EXPECT_EQ(values_of(requests[0].logits), sequences.all[0].alone[0]);
  EXPECT_EQ(values_of(requests[1].logits), alone);
  EXPECT_EQ(values_of(requests[2].logits), runs[1]);
  EXPECT_EQ(values_of(hidden.hidden), values_of(alone_hidden.hidden));
  EXPECT_EQ(values_of(requests[4].logits), sequences.all[2].alone[0]);
  EXPECT_EQ(memory.tokens(), alone_memory.tokens());
  EXPECT_EQ(passing.tokens(), 0) << "a few layers leave nothing";
  EXPECT_EQ(sequences.all[1].memory.tokens(), sequences.all[1].kept + 5);
}

TEST_P(DecoderSteps, WithoutMemoryFailAlone) {
  DecoderCase c(GetParam());
  Sequences sequences(c, 3, 1);
  std::vector<ForwardRequest> requests;
  for (Sequence& one : sequences.all) requests.push_back(request_for(one.step(0), one.memory));
  const TextConfig& text = c.golden.text();
  const int64_t page_bytes = page_bytes_for(text.num_kv_heads, text.head_dim);
  DecoderMemory without;
  without.pages = std::make_shared<Reservation>(std::make_shared<PagePool>(PagePool::Settings{
      .page_bytes = page_bytes, .capacity_bytes = 0, .piece_bytes = page_bytes}));
  requests[1].memory = &without;
  c.decoder.work(c.threads, requests);
  ASSERT_FALSE(requests[1].status);
  EXPECT_NE(requests[1].status.error().message.find("out of memory"), std::string::npos);
  EXPECT_EQ(without.tokens(), 0);
  for (const size_t i : {0, 2}) {
    ASSERT_TRUE(requests[i].done());
    EXPECT_EQ(values_of(requests[i].logits), sequences.all[i].alone[0]);
  }
  sequences.expect_alone(first_of(3), "afterwards");
}

INSTANTIATE_TEST_SUITE_P(models, DecoderSteps, testing::Values(1, 2, 5, 8));

TEST(DecoderSteps, NoRequestsAreNoWork) {
  DecoderCase c(1);
  c.decoder.work(c.threads, {});
}

}  // namespace
}  // namespace fovea
