// SPDX-License-Identifier: Apache-2.0
#include "language/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>

#include "places.h"

namespace fovea {
namespace {

Sampler sampler_of(const SamplingOptions& options, int vocab) {
  return *Sampler::make(options, vocab);
}

std::vector<float> random_logits(int count, uint32_t seed, float scale = 3) {
  std::mt19937 random(seed);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& logit : logits)
    logit = scale * (static_cast<float>(random() >> 8) * 0x1p-23f - 1 +
                     static_cast<float>(random() >> 8) * 0x1p-23f - 1);
  return logits;
}

SamplingOptions options_of(const nlohmann::json& json) {
  SamplingOptions options;
  options.temperature = json.value("temperature", 1.0);
  options.top_k = json.value("top_k", 0);
  options.top_p = json.value("top_p", 1.0);
  options.min_p = json.value("min_p", 0.0);
  options.repetition_penalty = json.value("repetition_penalty", 1.0);
  return options;
}

TEST(parity_sampler, ChoicesAreThoseOfTransformersProcessors) {
  std::ifstream file(source_dir() + "/tests/fixtures/sampler/choices.json");
  const auto cases = nlohmann::json::parse(file);
  EXPECT_GT(cases.size(), 40u);
  for (const auto& one : cases) {
    std::vector<float> logits;
    for (const int units : one.at("logits_64")) logits.push_back(static_cast<float>(units) / 64);
    Sampler sampler = sampler_of(options_of(one.at("options")), static_cast<int>(logits.size()));
    sampler.add_context(one.at("context").get<std::vector<int>>());
    const auto choices = sampler.choices(logits);
    ASSERT_TRUE(choices);
    const auto ids = one.at("ids").get<std::vector<int>>();
    const auto logprobs = one.at("logprobs").get<std::vector<float>>();
    std::vector<int> found;
    for (const TokenChance& choice : *choices) found.push_back(choice.id);
    EXPECT_EQ(found, ids) << one.at("options");
    for (size_t i = 0; i < std::min(ids.size(), found.size()); ++i)
      EXPECT_NEAR((*choices)[i].logprob, logprobs[i], 2e-5) << "written with 5 decimals";
  }
}

// The plain form of every filter: sorts, and follows the definitions word for word.
std::vector<int> choices_reference(const SamplingOptions& o, std::vector<float> scores) {
  std::vector<int> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return scores[a] > scores[b]; });
  size_t kept = ids.size();
  if (o.top_k > 0 && o.top_k < static_cast<int>(kept)) {
    kept = static_cast<size_t>(o.top_k);
    while (kept < ids.size() && scores[ids[kept]] == scores[ids[o.top_k - 1]]) ++kept;
  }
  ids.resize(kept);
  const auto weight = [&](int id) {
    return std::exp((double{scores[id]} - scores[ids.front()]) / o.temperature);
  };
  double total = 0;
  for (const int id : ids) total += weight(id);
  double before = 0;
  std::vector<int> left;
  for (const int id : ids) {
    if (!left.empty() && o.top_p < 1 && before >= o.top_p * total) break;
    before += weight(id);
    if (left.empty() || weight(id) >= o.min_p) left.push_back(id);
  }
  std::sort(left.begin(), left.end());
  return left;
}

TEST(Sampler, APenaltyThatMakesScoresInfiniteStillDraws) {
  for (const float logit : {2e38f, -2e38f}) {
    auto sampler =
        *Sampler::make({.temperature = 1, .repetition_penalty = logit > 0 ? 1e-9 : 1e9}, 3);
    sampler.add_context(std::vector<int>{0, 1, 2});
    const auto token = sampler.sample(std::vector<float>{logit, logit, logit});
    ASSERT_TRUE(token);
    EXPECT_TRUE(token->id >= 0 && token->id < 3);
  }
}

TEST(Sampler, SelectionWithoutSortingEqualsSorting) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const int vocab = 1 + static_cast<int>(random() % 300);
    std::vector<float> logits = random_logits(vocab, random(), 1 + static_cast<float>(round % 5));
    if (round % 3 == 0)
      for (float& logit : logits) logit = std::round(logit * 2) / 2;  // many ties
    if (round % 7 == 0) std::sort(logits.begin(), logits.end());
    SamplingOptions options;
    options.temperature = 0.2 + static_cast<double>(random() % 20) / 10;
    options.top_k = static_cast<int>(random() % 2 * (random() % 350));
    options.top_p = random() % 3 == 0 ? 1 : static_cast<double>(random() % 1000) / 1000;
    options.min_p = random() % 3 == 0 ? static_cast<double>(random() % 100) / 200 : 0;
    const auto choices = sampler_of(options, vocab).choices(logits);
    ASSERT_TRUE(choices);
    std::vector<int> found;
    double sum = 0;
    for (const TokenChance& choice : *choices) {
      found.push_back(choice.id);
      sum += std::exp(double{choice.logprob});
    }
    EXPECT_EQ(found, choices_reference(options, logits))
        << "round " << round << ": vocab " << vocab << ", temperature " << options.temperature
        << ", top_k " << options.top_k << ", top_p " << options.top_p << ", min_p "
        << options.min_p;
    EXPECT_NEAR(sum, 1, 1e-4);
  }
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheBest) {
  std::vector<float> logits = random_logits(1000, 1);
  logits[700] = logits[30] = logits[999] = 50;
  Sampler sampler = sampler_of({.top_k = 3, .top_p = 0.1}, 1000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sampler.sample(logits)->id, 30);
  Sampler penalised = sampler_of({.repetition_penalty = 1.5}, 1000);
  EXPECT_EQ(penalised.sample(logits)->id, 30);
  EXPECT_EQ(penalised.sample(logits)->id, 700) << "what was chosen counts as context";
  EXPECT_EQ(penalised.sample(logits)->id, 999);
  EXPECT_EQ(penalised.sample(logits)->id, 30) << "a second time is not punished again";
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitySays) {
  const std::vector<float> logits = random_logits(40, 2, 2);
  SamplingOptions options{.temperature = 0.8, .top_k = 25, .top_p = 0.95, .seed = 3};
  Sampler sampler = sampler_of(options, 40);
  const auto choices = *sampler.choices(logits);
  constexpr int kDraws = 40'000;
  std::vector<int> counts(40);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sampler.sample(logits)->id)];
  double chi_square = 0;
  int drawn = 0;
  for (const TokenChance& choice : choices) {
    const double expected = kDraws * std::exp(double{choice.logprob});
    const int count = counts[static_cast<size_t>(choice.id)];
    chi_square += (count - expected) * (count - expected) / expected;
    drawn += count;
  }
  EXPECT_EQ(drawn, kDraws) << "a token that was filtered out was drawn";
  // Mean n - 1, variance 2 (n - 1): five deviations above, for a seed that is fixed anyway.
  const auto freedom = static_cast<double>(choices.size() - 1);
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom));
  EXPECT_GT(chi_square, freedom - 4 * std::sqrt(2 * freedom)) << "too even to be chance";
}

TEST(Sampler, ASeedDecidesAllThatFollows) {
  const std::vector<float> logits = random_logits(500, 4);
  const auto draw = [&](uint64_t seed) {
    Sampler sampler = sampler_of({.temperature = 1, .seed = seed}, 500);
    std::vector<int> ids(50);
    for (int& id : ids) id = sampler.sample(logits)->id;
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  EXPECT_NE(draw(0), draw(UINT64_MAX));
  // The upper two bits of splitmix64, so that a change of the generator does not go unseen.
  Sampler sampler = sampler_of({.temperature = 1, .seed = 42}, 4);
  std::string drawn;
  for (int i = 0; i < 16; ++i)
    drawn += std::to_string(sampler.sample(std::vector<float>(4, 1.0f))->id);
  EXPECT_EQ(drawn, "2011030312012220");
}

TEST(Sampler, LogProbabilitiesAreThoseOfTheModel) {
  const std::vector<float> logits = random_logits(3000, 6, 5);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  std::vector<int> ids(3000);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  Sampler sampler = sampler_of(
      {.temperature = 2, .top_k = 50, .repetition_penalty = 1.4, .seed = 9, .most_likely = 20},
      3000);
  sampler.add_context(ids);
  const auto token = sampler.sample(logits);
  ASSERT_TRUE(token);
  const auto logprob = [&](int id) { return logits[static_cast<size_t>(id)] - std::log(sum); };
  EXPECT_NEAR(token->logprob, logprob(token->id), 1e-5);
  ASSERT_EQ(token->most_likely.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(token->most_likely[i].id, ids[i]);
    EXPECT_NEAR(token->most_likely[i].logprob, logprob(ids[i]), 1e-5);
  }
  EXPECT_EQ(sampler_of({.most_likely = 9}, 2).sample(std::vector<float>{1, 1})->most_likely,
            (std::vector<TokenChance>{{0, std::log(0.5f)}, {1, std::log(0.5f)}}));
}

TEST(Sampler, ScoresThatAreNoNumbersAreErrors) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 0.7}) {
    Sampler sampler = sampler_of({.temperature = temperature}, 100);
    for (const size_t at : {0u, 50u, 99u}) {
      std::vector<float> logits = random_logits(100, 7);
      logits[at] = kNan;
      const auto nan = sampler.sample(logits);
      ASSERT_FALSE(nan);
      EXPECT_EQ(nan.error().message,
                "choosing a token: the model's score of token " + std::to_string(at) +
                    " is not a number; its weights may be damaged, or try weights of f32");
      logits[at] = kInfinity;
      EXPECT_FALSE(sampler.sample(logits));
      EXPECT_FALSE(sampler.choices(logits));
      logits[at] = -kInfinity;
      const auto token = sampler.sample(logits);
      ASSERT_TRUE(token);
      EXPECT_NE(token->id, static_cast<int>(at)) << "excluded";
    }
    EXPECT_FALSE(sampler.sample(std::vector<float>(100, -kInfinity)));
  }
}

TEST(Sampler, ExtremesStaySound) {
  std::vector<float> logits = random_logits(64, 8);
  logits[17] = 3e38f;
  logits[3] = -3e38f;
  for (const double temperature : {1e-300, 1e-9, 1.0, 1e9, 1e300}) {
    const auto token = sampler_of({.temperature = temperature}, 64).sample(logits);
    ASSERT_TRUE(token);
    EXPECT_GE(token->id, 0);
    EXPECT_LT(token->id, 64);
    if (temperature < 1) {
      EXPECT_EQ(token->id, 17);
    }
  }
  EXPECT_EQ(sampler_of({.temperature = 1}, 1).sample(std::vector<float>{-5})->id, 0);
  EXPECT_EQ(sampler_of({.temperature = 1, .top_p = 0, .min_p = 1}, 64).choices(logits)->size(), 1u);
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto message = [](const SamplingOptions& options) {
    const auto sampler = Sampler::make(options, 10);
    return sampler ? "" : sampler.error().message;
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(
      message({.temperature = -0.5}),
      "temperature is -0.5; it must be 0 (always the most likely token) or a positive number");
  EXPECT_EQ(message({.temperature = kNan}).rfind("temperature is nan;", 0), 0u);
  EXPECT_EQ(message({.temperature = kInfinity}).rfind("temperature is inf;", 0), 0u);
  EXPECT_EQ(message({.top_k = -1}), "top_k is -1; it must be 0 (all tokens) or more");
  for (const double bad : {-0.1, 1.1, kNan, kInfinity}) {
    EXPECT_EQ(message({.top_p = bad}).rfind("top_p is ", 0), 0u);
    EXPECT_EQ(message({.min_p = bad}).rfind("min_p is ", 0), 0u);
  }
  for (const double bad : {0.0, -2.0, kNan, kInfinity})
    EXPECT_EQ(message({.repetition_penalty = bad}).rfind("repetition_penalty is ", 0), 0u);
  for (const double bad : {-2.1, 2.1, kNan, kInfinity}) {
    EXPECT_EQ(message({.frequency_penalty = bad}).rfind("frequency_penalty is ", 0), 0u);
    EXPECT_EQ(message({.presence_penalty = bad}).rfind("presence_penalty is ", 0), 0u);
  }
  EXPECT_EQ(message({.frequency_penalty = 2, .presence_penalty = -2}), "");
  EXPECT_EQ(message({.least_tokens = -1}), "least_tokens is -1; it must be 0 or more");
  for (const float bad : {-100.5f, 101.0f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(message({.logit_bias = {{3, bad}}}).rfind("logit_bias of token 3 is ", 0), 0u);
  for (const int id : {-1, 10})
    EXPECT_EQ(message({.logit_bias = {{0, 1}, {id, 1}}}),
              "logit_bias names token " + std::to_string(id) + ", but the model has tokens 0 to 9");
  EXPECT_EQ(message({.logit_bias = {{9, 1}, {9, 1}}}),
            "logit_bias names token 9 twice; give one value");
  EXPECT_EQ(message({.logit_bias = {{0, -100}, {9, 100}}}), "");
  EXPECT_EQ(message({.most_likely = -1}).rfind("most_likely is -1;", 0), 0u);
}

}  // namespace
}  // namespace fovea
