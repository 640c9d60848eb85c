// SPDX-License-Identifier: Apache-2.0
#include "relevance/balance.h"

#include <gtest/gtest.h>

#include <random>

namespace fovea {
namespace {

constexpr std::array kForms = {Balance::kMean, Balance::kProduct, Balance::kSum};
constexpr std::array kAlone = {Balance::kCoupling, Balance::kSalience, Balance::kInformation};

// One cell for each triple; an empty coupling where none is given.
Relevance parts_of(std::vector<uint16_t> information, std::vector<uint16_t> salience,
                   std::vector<uint16_t> coupling) {
  const Grid grid{1, static_cast<int>(information.size())};
  Relevance parts;
  parts.information = parts.salience = Map(grid);
  parts.information.score = std::move(information);
  parts.salience.score = std::move(salience);
  if (!coupling.empty()) {
    parts.coupling = Map(grid);
    parts.coupling.score = std::move(coupling);
  }
  return parts;
}

// Scores from all over, with the ends and tiny values more often than chance would have them.
uint16_t random_score(std::mt19937& random) {
  constexpr std::array<uint16_t, 6> kEnds = {0, 1, 2, 32768, 65534, 65535};
  return random() % 3 == 0 ? kEnds[random() % kEnds.size()] : static_cast<uint16_t>(random());
}

double random_weight(std::mt19937& random) {
  constexpr std::array kEnds = {0.0, 1.0, 0.5, 1e-9, 1 - 1e-9};
  return random() % 3 == 0 ? kEnds[random() % kEnds.size()]
                           : std::uniform_real_distribution<>(0, 1)(random);
}

RelevanceParams random_params(std::mt19937& random) {
  RelevanceParams params;
  const size_t form = random() % (kForms.size() + kAlone.size());
  params.balance = form < kForms.size() ? kForms[form] : kAlone[form - kForms.size()];
  params.compress_particularize = random_weight(random);
  params.exploit_explore = random_weight(random);
  params.focus_diversify = random_weight(random);
  return params;
}

std::vector<const Map*> outputs_of(const Relevance& parts) {
  return {&parts.compress_particularize, &parts.exploit_explore, &parts.focus_diversify,
          &parts.relevance};
}

TEST(Balance, NeverFallsWhenAnInputRises) {
  Threads threads(1);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const RelevanceParams params = random_params(random);
    std::vector<uint16_t> values[3];
    for (auto& value : values)
      for (int i = 0; i < 100; ++i) value.push_back(random_score(random));
    Relevance lower = parts_of(values[0], values[1], values[2]);
    const size_t raised = random() % 3;
    for (uint16_t& score : values[raised])
      score = static_cast<uint16_t>(
          std::min<uint32_t>(65535, score + (random() % 2 == 0 ? 1 : random() % 20000)));
    Relevance upper = parts_of(values[0], values[1], values[2]);
    balance(threads, params, lower);
    balance(threads, params, upper);
    for (size_t map = 0; map < 4; ++map)
      for (size_t i = 0; i < 100; ++i)
        ASSERT_GE(outputs_of(upper)[map]->score[i], outputs_of(lower)[map]->score[i])
            << "form " << static_cast<int>(params.balance) << " input " << raised << " output "
            << map;
  }
}

TEST(Balance, OfOneMapAloneIsThatMap) {
  Threads threads(1);
  Relevance parts = parts_of({1, 65535, 300}, {20, 0, 40000}, {65535, 7, 9});
  for (const auto& [form, map] : {std::pair{Balance::kCoupling, &parts.coupling},
                                  {Balance::kSalience, &parts.salience},
                                  {Balance::kInformation, &parts.information}}) {
    RelevanceParams params;
    params.balance = form;
    balance(threads, params, parts);
    EXPECT_EQ(parts.relevance.score, map->score) << static_cast<int>(form);
  }
}

TEST(Balance, RisesWithCoupling) {
  Threads threads(1);
  for (const Balance form : kForms) {
    RelevanceParams params;
    params.balance = form;
    Relevance parts = parts_of({30000, 30000, 30000}, {20000, 20000, 20000}, {5000, 20000, 60000});
    balance(threads, params, parts);
    EXPECT_LT(parts.relevance.score[0], parts.relevance.score[1]);
    EXPECT_LT(parts.relevance.score[1], parts.relevance.score[2]);
    EXPECT_EQ(parts.compress_particularize.score[0], parts.compress_particularize.score[2]);
  }
}

TEST(Balance, AgreesWithTheFormulas) {
  Threads threads(2);
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const RelevanceParams params = random_params(random);
    std::vector<uint16_t> values[3];
    for (auto& value : values)
      for (int i = 0; i < 200; ++i) value.push_back(random_score(random));
    Relevance fast = parts_of(values[0], values[1], values[2]);
    Relevance plain = fast;
    for (Map* map : {&fast.relevance, &fast.exploit_explore})
      *map = Map(Grid{3, 3}, 4711);  // stale
    balance(threads, params, fast);
    balance_reference(params, plain);
    for (size_t map = 0; map < 4; ++map)
      for (size_t i = 0; i < 200; ++i)
        // Rounded differently in the last bits, so at most a half may fall the other way.
        ASSERT_NEAR(outputs_of(fast)[map]->score[i], outputs_of(plain)[map]->score[i], 1);
  }
}

TEST(Balance, OfEqualPolesIsWhatTheyAre) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const double value = random_score(random) / 65535.0;
    const double weight = random_weight(random);
    // A few roundings of doubles.
    EXPECT_NEAR(navigate(Balance::kMean, value, value, weight), value, 1e-15);
    EXPECT_NEAR(navigate(Balance::kSum, value, value, weight), value, 1e-15);
    EXPECT_NEAR(navigate(Balance::kProduct, value, value, weight), value * value, 1e-15);
  }
}

TEST(Balance, AWeightOfOneOrZeroIsOnePoleAlone) {
  for (const double other : {0.0, 0.3, 1.0}) {
    EXPECT_EQ(navigate(Balance::kMean, 0.7, other, 1), 0.7);
    EXPECT_EQ(navigate(Balance::kMean, other, 0.7, 0), 0.7);
    EXPECT_EQ(navigate(Balance::kSum, 0.7, other, 1), 0.7);
    EXPECT_EQ(navigate(Balance::kSum, other, 0.7, 0), 0.7);
    EXPECT_EQ(navigate(Balance::kProduct, 0.7, other, 1), 0.7 * 0.7);
    EXPECT_EQ(navigate(Balance::kProduct, other, 0.7, 0), 0.7 * 0.7);
  }
}

TEST(Balance, NothingIsZeroAndEverythingIsOne) {
  Threads threads(1);
  for (const Balance form : kForms) {
    RelevanceParams params;
    params.balance = form;
    Relevance parts = parts_of({0, 65535}, {0, 65535}, {0, 65535});
    balance(threads, params, parts);
    for (const Map* map : outputs_of(parts))
      EXPECT_EQ(map->score, (std::vector<uint16_t>{0, 65535})) << static_cast<int>(form);
  }
}

TEST(Balance, BothPolesMustAgreeInMeanAndProduct) {
  for (const Balance form : {Balance::kMean, Balance::kProduct}) {
    EXPECT_EQ(navigate(form, 0, 1, 0.5), 0);
    EXPECT_EQ(navigate(form, 1, 0, 0.6), 0);
    EXPECT_LT(navigate(form, 0.1, 0.9, 0.5), navigate(form, 0.5, 0.5, 0.5));
  }
  EXPECT_EQ(navigate(Balance::kSum, 0, 1, 0.5), 0.5);
}

TEST(Balance, WithoutAQuestionSalienceStandsInForCoupling) {
  Threads threads(1);
  for (const Balance form :
       {Balance::kMean, Balance::kProduct, Balance::kSum, Balance::kCoupling}) {
    RelevanceParams params;
    params.balance = form;
    Relevance silent = parts_of({1000, 60000, 30000}, {65535, 200, 40000}, {});
    Relevance asked = parts_of({1000, 60000, 30000}, {65535, 200, 40000}, {65535, 200, 40000});
    balance(threads, params, silent);
    balance(threads, params, asked);
    EXPECT_TRUE(silent.coupling.empty());
    EXPECT_EQ(silent.relevance.score, asked.relevance.score);
    if (form != Balance::kProduct) {
      EXPECT_EQ(silent.focus_diversify.score, silent.salience.score);
    }
  }
}

}  // namespace
}  // namespace fovea
