// SPDX-License-Identifier: Apache-2.0
// Penalties of the answer, biases and what forbids tokens, against their definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "language/sampler.h"

namespace fovea {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::mt19937& random, int vocab, bool ties) {
  std::uniform_real_distribution<float> uniform(-6, 6);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& logit : logits) logit = ties ? std::round(uniform(random)) : uniform(random);
  return logits;
}

void clear_bit(std::span<uint64_t> bits, int id) {
  bits[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << id % 64);
}

// A mask that depends on the answer so far: of every three tokens one, another one each step.
bool third_is_allowed(std::span<const int> answer, int id) {
  const int last = answer.empty() ? 0 : answer.back();
  return (id + last + static_cast<int>(answer.size())) % 3 == 0;
}

// The scores by definition, token by token.
std::vector<float> scores_reference(const SamplingOptions& options, std::span<const float> logits,
                                    std::span<const int> answer, std::span<const int> ends) {
  std::vector<float> scores(logits.begin(), logits.end());
  for (size_t i = 0; i < scores.size(); ++i) {
    const int id = static_cast<int>(i);
    const auto count = std::count(answer.begin(), answer.end(), id);
    if (options.repetition_penalty != 1 && count > 0) {
      const auto penalty = static_cast<float>(options.repetition_penalty);
      scores[i] = scores[i] < 0 ? scores[i] * penalty : scores[i] / penalty;
    }
    scores[i] -= static_cast<float>(static_cast<double>(count) * options.frequency_penalty +
                                    (count > 0 ? options.presence_penalty : 0));
    for (const TokenBias& token : options.logit_bias)
      if (token.id == id) scores[i] = token.bias == -100 ? -kInfinity : scores[i] + token.bias;
    const bool is_end = std::find(ends.begin(), ends.end(), id) != ends.end();
    if (is_end && answer.size() < static_cast<size_t>(options.least_tokens)) scores[i] = -kInfinity;
    if (options.mask && !third_is_allowed(answer, id)) scores[i] = -kInfinity;
  }
  return scores;
}

// Some of the options, each used about every other time.
SamplingOptions random_options(std::mt19937& random, int vocab, double temperature) {
  SamplingOptions options{.temperature = temperature, .seed = random()};
  const auto penalty = [&] { return static_cast<double>(random() % 401) / 100 - 2; };
  if (random() % 3 == 0) options.repetition_penalty = 1.3;
  if (random() % 2 == 0) options.frequency_penalty = penalty();
  if (random() % 2 == 0) options.presence_penalty = penalty();
  for (int id = 0; random() % 2 == 0 && id < vocab; id += 1 + static_cast<int>(random() % 9)) {
    const bool bans = random() % 4 == 0;
    options.logit_bias.push_back({id, bans ? -100 : static_cast<float>(random() % 80) / 8 - 5});
  }
  if (random() % 2 == 0) options.least_tokens = static_cast<int>(random() % 8);
  if (random() % 2 == 0)
    options.mask = [vocab](std::span<const int> answer, std::span<uint64_t> allowed) {
      EXPECT_EQ(allowed.size(), static_cast<size_t>(vocab + 63) / 64);
      EXPECT_TRUE(std::all_of(allowed.begin(), allowed.end(), [](uint64_t w) { return ~w == 0; }));
      for (int id = 0; id < vocab; ++id)
        if (!third_is_allowed(answer, id)) clear_bit(allowed, id);
    };
  return options;
}

// Step by step: the same choices and the same draws as a plain sampler of the reference's scores.
TEST(SamplerScores, EqualTheDefinitionsStepByStep) {
  std::mt19937 random(15);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    const int vocab = std::vector{3, 17, 63, 64, 65, 127, 129, 333}[round % 8];
    const double temperature = round % 3 == 0 ? 0 : 0.5 + round % 5;
    const std::vector<int> ends = {vocab - 1, 0, vocab + 4, -1};
    SamplingOptions options = random_options(random, vocab, temperature);
    if (round % 4 == 1) options.top_k = 5;
    if (round % 5 == 1) options.top_p = 0.8;
    Sampler sampler = *Sampler::make(options, vocab, ends);
    SamplingOptions plain{.temperature = temperature,
                          .top_k = options.top_k,
                          .top_p = options.top_p,
                          .seed = options.seed};
    Sampler plain_sampler = *Sampler::make(plain, vocab);
    std::vector<int> answer;
    for (int step = 0; step < 12; ++step) {
      const std::vector<float> logits = random_logits(random, vocab, round % 2 == 0);
      const std::vector<float> scores = scores_reference(options, logits, answer, ends);
      const auto choices = sampler.choices(logits);
      const auto token = sampler.sample(logits);
      if (*std::max_element(scores.begin(), scores.end()) == -kInfinity) {
        EXPECT_FALSE(choices);
        EXPECT_FALSE(token);
        break;
      }
      ASSERT_TRUE(choices) << choices.error().message;
      ASSERT_TRUE(token) << token.error().message;
      EXPECT_EQ(*choices, *plain_sampler.choices(scores)) << "round " << round << " step " << step;
      EXPECT_EQ(token->id, plain_sampler.sample(scores)->id)
          << "round " << round << ", step " << step << ", vocab " << vocab;
      EXPECT_GT(scores[static_cast<size_t>(token->id)], -kInfinity) << "forbidden";
      answer.push_back(token->id);
      ++compared;
    }
  }
  EXPECT_GT(compared, 2500);
}

TEST(SamplerScores, PenaltiesCountTheAnswerAndNotThePrompt) {
  const std::vector<float> logits = {2, 1.5f, 0};
  // 0: 2, then 1; 1: 1.5, then 0.5; ...
  Sampler frequency = *Sampler::make({.frequency_penalty = 1}, 3);
  frequency.add_context(std::vector<int>{0, 0, 0, 1});
  std::vector<int> ids(6);
  for (int& id : ids) id = frequency.sample(logits)->id;
  EXPECT_EQ(ids, (std::vector{0, 1, 0, 1, 0, 2})) << "at -1, -0.5 and 0 the last one is best";

  Sampler presence = *Sampler::make({.presence_penalty = 1}, 3);
  presence.add_context(std::vector<int>{0, 1});
  for (int& id : ids) id = presence.sample(logits)->id;
  EXPECT_EQ(ids, (std::vector{0, 1, 0, 0, 0, 0})) << "once is as much as often";

  Sampler encouraged = *Sampler::make({.presence_penalty = -2}, 3);
  EXPECT_EQ(encouraged.sample(std::vector<float>{0, 1, 0})->id, 1);
  EXPECT_EQ(encouraged.sample(std::vector<float>{2, 0.5f, 0})->id, 1);
}

TEST(SamplerScores, BiasesAreAddedAndABanHoldsAgainstAnything) {
  const std::vector<float> logits = {5, 4, 3e38f, 4};
  const auto best = [&](std::vector<TokenBias> biases) {
    return Sampler::make({.logit_bias = std::move(biases)}, 4)->sample(logits)->id;
  };
  EXPECT_EQ(best({{1, 7}}), 2);
  EXPECT_EQ(best({{2, -99.9f}}), 2) << "no ban";
  EXPECT_EQ(best({{2, -100}}), 0);
  EXPECT_EQ(best({{2, -100}, {3, 1.5f}}), 3);
  EXPECT_EQ(best({{2, -100}, {1, 1}}), 0) << "a tie goes to the lower id";
  Sampler hot = *Sampler::make({.temperature = 1e300, .logit_bias = {{2, -100}, {0, -100}}}, 4);
  for (int i = 0; i < 200; ++i) {
    const int id = hot.sample(logits)->id;
    EXPECT_TRUE(id == 1 || id == 3) << id;
  }
}

TEST(SamplerScores, AnAnswerCannotEndBeforeItsLeastTokens) {
  const std::vector<float> logits = {0, 9, 8, 1};
  const std::vector<int> ends = {1, 2, 99};
  for (const double temperature : {0.0, 0.1}) {
    Sampler sampler = *Sampler::make({.temperature = temperature, .least_tokens = 3}, 4, ends);
    for (int i = 0; i < 3; ++i) {
      const int id = sampler.sample(logits)->id;
      EXPECT_TRUE(id == 3 || (id == 0 && temperature > 0)) << id;
    }
    EXPECT_EQ(sampler.sample(logits)->id, 1) << "the fourth may end it";
  }
  const auto stuck =
      Sampler::make({.least_tokens = 1}, 2, std::vector{0, 1})->sample(std::vector<float>{1, 2});
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().message,
            "choosing token 1 of the answer: least_tokens forbid every token that the model "
            "allows; allow one");
}

TEST(SamplerScores, AMaskSeesTheAnswerSoFar) {
  std::vector<std::vector<int>> seen;
  const TokenMask counts_down = [&](std::span<const int> answer, std::span<uint64_t> allowed) {
    seen.emplace_back(answer.begin(), answer.end());
    std::fill(allowed.begin(), allowed.end(), 0);
    const size_t next = 129 - answer.size() * 32;
    allowed[next / 64] = uint64_t{1} << next % 64;
  };
  Sampler sampler = *Sampler::make({.temperature = 1, .mask = counts_down}, 130);
  sampler.add_context(std::vector<int>{5, 6});
  const std::vector<float> logits(130, 1.0f);
  for (const int expected : {129, 97, 65}) EXPECT_EQ(sampler.sample(logits)->id, expected);
  EXPECT_EQ(seen, (std::vector<std::vector<int>>{{}, {129}, {129, 97}}));
}

TEST(SamplerScores, AMaskThatLeavesNothingIsAnError) {
  for (const double temperature : {0.0, 1.0}) {
    const TokenMask past_the_end = [](std::span<const int> answer, std::span<uint64_t> allowed) {
      if (answer.empty()) return;
      std::fill(allowed.begin(), allowed.end(), 0);
      allowed.back() = ~uint64_t{0} << 5;  // tokens that are not there
    };
    Sampler sampler = *Sampler::make({.temperature = temperature, .mask = past_the_end}, 69);
    const std::vector<float> logits(69, 1.0f);
    ASSERT_TRUE(sampler.sample(logits));
    const auto none = sampler.sample(logits);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().kind, Error::Kind::kBadInput);
    EXPECT_EQ(
        none.error().message,
        "choosing token 2 of the answer: the mask allows none of the 69 tokens; leave one bit "
        "set");

    // What is allowed by each is forbidden by another.
    const TokenMask first_two = [](std::span<const int>, std::span<uint64_t> allowed) {
      allowed[0] = 3;
    };
    Sampler banned = *Sampler::make(
        {.temperature = temperature, .logit_bias = {{0, -100}}, .mask = first_two}, 4);
    const auto nothing = banned.sample(std::vector<float>{1, -kInfinity, 1, 1});
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().message,
              "choosing token 1 of the answer: logit_bias and the mask forbid every token that the "
              "model allows; allow one");
    EXPECT_EQ(banned.sample(std::vector<float>{1, -9, 1, 1})->id, 1) << "and it goes on";
  }
}

TEST(SamplerScores, APenaltyThatMakesAScoreInfiniteForbidsNothing) {
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler = *Sampler::make(
        {.temperature = temperature, .repetition_penalty = 1e9, .logit_bias = {{0, -100}}}, 3);
    sampler.add_context(std::vector<int>{0, 1, 2});
    for (int i = 0; i < 20; ++i) {
      const auto token = sampler.sample(std::vector<float>{-2e38f, -2e38f, -2e38f});
      ASSERT_TRUE(token) << token.error().message;
      EXPECT_NE(token->id, 0);
    }
  }
}

TEST(SamplerScores, ScoresOfForbiddenTokensMustBeNumbersToo) {
  const TokenMask first = [](std::span<const int>, std::span<uint64_t> allowed) { allowed[0] = 1; };
  Sampler sampler = *Sampler::make({.logit_bias = {{1, -100}}, .mask = first}, 3);
  EXPECT_FALSE(sampler.sample(std::vector<float>{1, std::nanf(""), 1}));
  EXPECT_FALSE(sampler.sample(std::vector<float>{1, 1, kInfinity}));
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 2, 3})->id, 0);
}

TEST(SamplerScores, LogProbabilitiesAreThoseBeforeAnyOption) {
  const std::vector<float> logits = {3, 1, 2};
  const SampledToken plain = *Sampler::make({.most_likely = 3}, 3)->sample(logits);
  const TokenMask second = [](std::span<const int>, std::span<uint64_t> allowed) {
    allowed[0] = 2;
  };
  Sampler sampler = *Sampler::make(
      {.frequency_penalty = 2, .logit_bias = {{0, -100}, {1, 5}}, .mask = second, .most_likely = 3},
      3);
  const SampledToken token = *sampler.sample(logits);
  EXPECT_EQ(token.id, 1);
  EXPECT_EQ(token.most_likely, plain.most_likely);
  EXPECT_EQ(token.logprob, plain.most_likely[2].logprob);
}

TEST(SamplerScores, ADeviceDrawsOnlyByWhatItKnows) {
  EXPECT_TRUE(device_can_draw({.temperature = 1, .top_k = 3, .repetition_penalty = 1.2}));
  const TokenMask all = [](std::span<const int>, std::span<uint64_t>) {};
  for (const SamplingOptions& options :
       {SamplingOptions{.frequency_penalty = 0.1}, SamplingOptions{.presence_penalty = -0.1},
        SamplingOptions{.logit_bias = {{0, 0}}}, SamplingOptions{.least_tokens = 1},
        SamplingOptions{.mask = all}})
    EXPECT_TRUE(shapes_logits(options) && !device_can_draw(options));
  EXPECT_FALSE(device_can_draw({.most_likely = 1}));
}

}  // namespace
}  // namespace fovea
