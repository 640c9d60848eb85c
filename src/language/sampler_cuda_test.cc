// SPDX-License-Identifier: Apache-2.0
#include "language/sampler_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "device/cuda/test_device.h"

namespace fovea {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kQwenVocab = 151'936;

// Emulated threads change places slowly where a sanitizer watches.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 1;
#else
constexpr int kRounds = 5;
#endif

// How the logits of a test are made.
enum class Kind { kSmooth, kTies, kEqual, kExcluded, kClustered, kPeaked };
constexpr Kind kKinds[] = {Kind::kSmooth,   Kind::kTies,      Kind::kEqual,
                           Kind::kExcluded, Kind::kClustered, Kind::kPeaked};

std::vector<float> logits_of(Kind kind, int vocab, std::mt19937& random) {
  std::normal_distribution<float> normal(0, kind == Kind::kPeaked ? 5.0f : 1.5f);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& logit : logits) {
    logit = normal(random);
    if (kind == Kind::kTies) logit = std::round(logit * 2) / 2;
    if (kind == Kind::kEqual) logit = -1.25f;
    // So near to each other that they are in one bin, and one far from them.
    if (kind == Kind::kClustered) logit = &logit == logits.data() ? -20 : 3 + logit / 200;
    if (kind == Kind::kExcluded && random() % 3 != 0) logit = -kInfinity;
  }
  if (kind == Kind::kExcluded) logits[random() % logits.size()] = 0.5f;
  return logits;
}

// splitmix64 by itself: what u the next draw has.
double unit_after(uint64_t state) {
  uint64_t z = state + kRandomStep;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

// Whether u lies so near to where two tokens of the CPU's choices meet that rounding decides.
bool is_near_border(const std::vector<TokenChance>& choices, double u) {
  double total = 0;
  for (const TokenChance& choice : choices) total += std::exp(double{choice.logprob});
  double sum = 0;
  for (const TokenChance& choice : choices) {
    sum += std::exp(double{choice.logprob}) / total;
    if (std::abs(sum - u) < 1e-6) return true;
  }
  return false;
}

class CudaSampler : public CudaTest {
 protected:
  // Sequences with options of their own, on the device and as the CPU samples them.
  void start(const std::vector<SamplingOptions>& options, int vocab,
             const std::vector<int>& context = {}) {
    vocab_ = vocab;
    options_ = options;
    samplers_.clear();
    std::vector<SamplerState> states;
    std::vector<uint32_t> bits;
    greedy_only_ = true;
    for (const SamplingOptions& one : options) {
      samplers_.push_back(*Sampler::make(one, vocab));
      samplers_.back().add_context(context);
      states.push_back(make_sampler_state(one));
      greedy_only_ = greedy_only_ && one.temperature == 0;
      std::vector<uint32_t> row(static_cast<size_t>(context_words(vocab)));
      add_context_bits(row, context);
      bits.insert(bits.end(), row.begin(), row.end());
    }
    states_ = on_device(states);
    bits_ = on_device(bits);
    out_ = poisoned<ChosenToken>(options.size());
    ids_ = poisoned<int>(options.size());
    ASSERT_TRUE(workspace_.open(stream(), static_cast<int>(options.size()), vocab));
  }

  // All sequences have the same logits where there are those of one.
  std::vector<ChosenToken> choose(const std::vector<float>& logits) {
    std::vector<float> all;
    while (all.size() < options_.size() * static_cast<size_t>(vocab_))
      all.insert(all.end(), logits.begin(), logits.end());
    const auto there = on_device(all);
    choose_tokens_cuda(stream(),
                       {.logits = there.data(),
                        .sequences = static_cast<int>(options_.size()),
                        .vocab = vocab_,
                        .states = states_.data(),
                        .context_bits = bits_.data(),
                        .greedy_only = greedy_only_,
                        .out = out_.data(),
                        .ids = ids_.data()},
                       workspace_);
    auto chosen = on_host(out_);
    const auto ids = on_host(ids_);
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], chosen[i].id);
    return chosen;
  }

  // Chooses on both and counts what differs, which only rounding may excuse.
  void compare(const std::vector<float>& logits) {
    const auto before = on_host(states_);
    const auto chosen = choose(logits);
    const auto after = on_host(states_);
    const float most = *std::max_element(logits.begin(), logits.end());
    for (size_t i = 0; i < chosen.size(); ++i) {
      SCOPED_TRACE(describe(options_[i]));
      const auto choices = *samplers_[i].choices(logits);
      const auto expected = samplers_[i].sample(logits);
      ASSERT_TRUE(expected);
      EXPECT_EQ(chosen[i].fault, ChoiceFault::kNone);
      ASSERT_GE(chosen[i].id, 0);
      ASSERT_LT(chosen[i].id, vocab_);
      const float log_total = logits[static_cast<size_t>(expected->id)] - expected->logprob;
      EXPECT_NEAR(chosen[i].logprob, logits[static_cast<size_t>(chosen[i].id)] - log_total, 1e-5);
      EXPECT_NEAR(chosen[i].best_logprob, most - log_total, 1e-5);
      const bool draws = options_[i].temperature > 0;
      EXPECT_EQ(after[i].random, before[i].random + (draws ? kRandomStep : 0));
      draws_ += draws ? 1 : 0;
      if (chosen[i].id == expected->id) continue;
      ++different_;
      EXPECT_TRUE(draws && is_near_border(choices, unit_after(before[i].random)))
          << "token " << chosen[i].id << " instead of " << expected->id;
    }
  }

  std::string describe(const SamplingOptions& o) const {
    return fmt::format("vocab {}, temperature {}, top_k {}, top_p {}, min_p {}, penalty {}", vocab_,
                       o.temperature, o.top_k, o.top_p, o.min_p, o.repetition_penalty);
  }

  int vocab_ = 0;
  bool greedy_only_ = false;
  std::vector<SamplingOptions> options_;
  std::vector<Sampler> samplers_;
  DeviceMemory<SamplerState> states_;
  DeviceMemory<uint32_t> bits_;
  DeviceMemory<ChosenToken> out_;
  DeviceMemory<int> ids_;
  SamplerWorkspace workspace_;
  std::mt19937 random_{17};
  int draws_ = 0;
  int different_ = 0;
};

// Every combination of filters.
std::vector<SamplingOptions> all_filters(int vocab, std::mt19937& random) {
  std::vector<SamplingOptions> all;
  for (int i = 0; i < 16; ++i) {
    SamplingOptions options;
    options.temperature = 0.3 + static_cast<double>(random() % 20) / 10;
    if ((i & 1) != 0) options.top_k = 1 + static_cast<int>(random() % static_cast<unsigned>(vocab));
    if ((i & 1) != 0 && random() % 2 == 0) options.top_k = 1 + options.top_k % 20;
    if ((i & 2) != 0) options.top_p = static_cast<double>(random() % 1000) / 1000;
    if ((i & 4) != 0) options.min_p = static_cast<double>(random() % 100) / 400;
    if ((i & 8) != 0) options.repetition_penalty = 0.5 + static_cast<double>(random() % 20) / 10;
    options.seed = random();
    all.push_back(options);
  }
  return all;
}

TEST_F(CudaSampler, GreedyIsTheCpus) {
  for (const int vocab : {1, 7, 33, 1000, 1024, 1025, 4100}) {
    const std::vector<int> context = {0, vocab / 2, vocab - 1};
    for (const bool mixed : {false, true}) {
      std::vector<SamplingOptions> options = {
          {}, {.top_k = 3, .top_p = 0.5, .repetition_penalty = 1.7}, {.repetition_penalty = 0.6}};
      if (mixed) options.push_back({.temperature = 1});
      start(options, vocab, context);
      for (const Kind kind : kKinds) compare(logits_of(kind, vocab, random_));
    }
  }
  EXPECT_EQ(different_, 0);
}

TEST_F(CudaSampler, DrawsAreTheCpus) {
  for (const int vocab : {1, 7, 33, 1000, 2500}) {
    const int rounds = vocab > 1000 ? 1 : kRounds;
    for (int round = 0; round < rounds; ++round) {
      start(all_filters(vocab, random_), vocab, {vocab - 1, vocab / 3});
      for (const Kind kind : kKinds) compare(logits_of(kind, vocab, random_));
    }
  }
  EXPECT_GT(draws_, 400 * kRounds);
  EXPECT_LE(different_, draws_ / 1000);
}

TEST_F(CudaSampler, DrawsFromALargeVocabulary) {
  std::vector<SamplingOptions> options = {
      {.temperature = 0.7, .top_k = 20, .top_p = 0.8, .seed = 1},
      {.temperature = 1, .top_p = 0.95, .repetition_penalty = 1.2, .seed = 2}};
  start(options, kQwenVocab, {5, 151'000});
  compare(logits_of(Kind::kPeaked, kQwenVocab, random_));
  compare(logits_of(Kind::kSmooth, kQwenVocab, random_));
  start({{.temperature = 1.5, .top_k = 100'000, .top_p = 0.999, .min_p = 1e-4, .seed = 3}},
        kQwenVocab);
  compare(logits_of(Kind::kTies, kQwenVocab, random_));
  EXPECT_EQ(different_, 0);
}

// More blocks than a block has threads.
TEST_F(CudaSampler, DrawsFromAHugeVocabulary) {
  constexpr int kVocab = 300'001;
  start({{.temperature = 2, .top_k = 250'000, .top_p = 0.9, .seed = 3}}, kVocab);
  compare(logits_of(Kind::kSmooth, kVocab, random_));
  start({{}}, kVocab);
  compare(logits_of(Kind::kTies, kVocab, random_));
  EXPECT_EQ(different_, 0);
}

// Many times over the same filters, so that every choice is met.
TEST_F(CudaSampler, DrawsWhatRanksAboveTheCut) {
  std::vector<SamplingOptions> options(40, {.temperature = 1, .top_k = 4, .top_p = 0.65});
  for (size_t i = 0; i < options.size(); ++i) options[i].seed = i;
  start(options, 12);
  const std::vector<float> logits = {1, 2, 0.f, 2, 1, -0.f, 2, 1, -1, 1, 2, 1};
  std::vector<int> counts(12);
  for (const ChosenToken& token : choose(logits)) ++counts[static_cast<size_t>(token.id)];
  for (const size_t id : {1u, 3u, 6u}) EXPECT_GT(counts[id], 5) << "token " << id;
  EXPECT_EQ(counts[1] + counts[3] + counts[6], 40) << "of four equals top p keeps the lower ids";
  start(options, 12);
  compare(logits);
  EXPECT_EQ(different_, 0);
}

TEST_F(CudaSampler, TheSameBitsEveryTime) {
  const auto options = all_filters(1500, random_);
  const auto logits = logits_of(Kind::kSmooth, 1500, random_);
  std::vector<std::vector<ChosenToken>> runs;
  for (int run = 0; run < 2; ++run) {
    start(options, 1500);
    choose(logits);
    runs.push_back(choose(logits));
  }
  for (size_t i = 0; i < options.size(); ++i) {
    EXPECT_EQ(runs[0][i].id, runs[1][i].id);
    EXPECT_EQ(runs[0][i].logprob, runs[1][i].logprob);
    EXPECT_EQ(runs[0][i].best_logprob, runs[1][i].best_logprob);
  }
}

TEST_F(CudaSampler, WhatIsChosenIsContext) {
  start({{.repetition_penalty = 1.5}}, 100);
  std::vector<float> logits(100, 1);
  logits[70] = logits[30] = logits[99] = 50;
  for (const int expected : {30, 70, 99, 30}) EXPECT_EQ(choose(logits)[0].id, expected);
  const auto bits = on_host(bits_);
  EXPECT_EQ(bits, (std::vector<uint32_t>{1u << 30, 0, 1u << 6, 1u << 3}));
}

TEST_F(CudaSampler, BadScoresAreFaultsOfTheirSequenceAlone) {
  constexpr int kVocab = 1300;
  const std::vector<SamplingOptions> options = {{},
                                                {.temperature = 1, .top_k = 5},
                                                {.temperature = 1, .top_p = 0.5},
                                                {.temperature = 0.7},
                                                {.repetition_penalty = 1.3}};
  start(options, kVocab, {1299});
  for (const float bad : {kNan, kInfinity, -kNan}) {
    const auto good = logits_of(Kind::kSmooth, kVocab, random_);
    std::vector<float> all;
    for (size_t i = 0; i < options.size(); ++i) {
      auto logits = good;
      if (i != 3) logits[1299] = logits[1100 - i] = bad;
      all.insert(all.end(), logits.begin(), logits.end());
    }
    const auto bits = on_host(bits_);
    const auto states = on_host(states_);
    const auto chosen = choose(all);
    for (size_t i = 0; i < options.size(); ++i) {
      if (i == 3) {
        EXPECT_EQ(chosen[i].fault, ChoiceFault::kNone);
        EXPECT_EQ(chosen[i].id, samplers_[i].sample(good)->id);
        continue;
      }
      EXPECT_EQ(chosen[i].fault, ChoiceFault::kNotFinite);
      EXPECT_EQ(chosen[i].id, static_cast<int>(1100 - i)) << "the first";
      EXPECT_EQ(std::isnan(chosen[i].logprob), std::isnan(bad));
      EXPECT_EQ(on_host(states_)[i].random, states[i].random);
    }
    const auto words = static_cast<size_t>(context_words(kVocab));
    const auto bits_after = on_host(bits_);
    EXPECT_TRUE(std::equal(bits.begin(), bits.begin() + static_cast<int64_t>(3 * words),
                           bits_after.begin()));
  }
  for (const ChosenToken& token : choose(std::vector<float>(kVocab, -kInfinity)))
    EXPECT_EQ(token.fault, ChoiceFault::kAllExcluded);
  compare(logits_of(Kind::kTies, kVocab, random_));
  EXPECT_EQ(different_, 0);
}

TEST_F(CudaSampler, ExtremesStaySound) {
  std::vector<SamplingOptions> options;
  for (const double temperature : {1e-320, 1e-300, 1e-9, 1.0, 1e9, 1e300})
    for (const double top_p : {0.0, 0.9, 1.0})
      options.push_back({.temperature = temperature, .top_k = top_p > 0 ? 20 : 0, .top_p = top_p});
  options.push_back({.temperature = 1, .top_p = 0.5, .min_p = 1});
  start(options, 64);
  std::vector<float> logits = logits_of(Kind::kSmooth, 64, random_);
  compare(logits);
  logits[17] = 3e38f;
  logits[3] = -3e38f;
  logits[4] = -kInfinity;
  compare(logits);
  compare(std::vector<float>(64, 3e38f));
  EXPECT_EQ(different_, 0);
  // A penalty below 1 makes the best infinite; above 1, all negative infinity.
  start({{.temperature = 1, .top_p = 0.9, .repetition_penalty = 0.1},
         {.temperature = 1, .top_k = 2, .repetition_penalty = 1e-60}},
        64, {17});
  for (const ChosenToken& token : choose(logits)) EXPECT_EQ(token.id, 17);
  start({{.temperature = 1, .top_p = 0.9, .repetition_penalty = 1e300}}, 2, {0, 1});
  EXPECT_EQ(choose({-1, -2})[0].fault, ChoiceFault::kNone);
}

}  // namespace
}  // namespace fovea
