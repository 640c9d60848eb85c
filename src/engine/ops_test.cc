// SPDX-License-Identifier: Apache-2.0
// python/tests/test_ops.py compares every kind with plain torch in float64.
#include "fovea/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "fovea/fovea.h"
#include "ops/attention/attention.h"
#include "ops/test_plain_keys.h"

namespace fovea {
namespace {

std::vector<float> random_rows(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Given {
  std::vector<float> q = random_rows(30 * 2 * 12, 1);
  std::vector<float> k = random_rows(size_t{30} * 12, 2);
  std::vector<float> v = random_rows(size_t{30} * 12, 3);
  std::vector<float> out = std::vector<float>(q.size());
  std::vector<RowInGrid> places;
  AttentionRows rows{q.data(), k.data(), v.data(), out.data(), 30, 2, 1, 12};

  Given() {
    for (int i = 0; i < 30; ++i) places.push_back({i / 24, i * 7 % 30 / 6, i * 7 % 6});
  }
};

TEST(Ops, DenseAttentionIsTheReferenceWhateverThePlaces) {
  Given given;
  PlainKeys keys(1, 12);
  keys.append(given.k.data(), 12, given.v.data(), 12, 30);
  std::vector<float> expected(given.q.size());
  for (const bool causal : {false, true}) {
    attention_reference(given.q.data(), 24, 30, keys.view(),
                        {.heads = 2, .scale = 0.3f, .causal = causal}, expected.data(), 24);
    AttentionOptions options{.causal = causal, .scale = 0.3f};
    if (!causal) options.places = given.places;
    ASSERT_TRUE(attend(given.rows, options));
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(given.out[i], expected[i], 2e-6) << "causal " << causal << ", value " << i;
  }
}

TEST(Ops, EveryKindAttends) {
  for (const AttentionChoice& choice : attention_choices())
    for (const bool causal : {false, true}) {
      Given given;
      const AttentionOptions options{
          .kind = choice.name, .causal = causal, .scale = 0.3f, .places = given.places};
      const Status done = attend(given.rows, options);
      EXPECT_EQ(static_cast<bool>(done), causal ? choice.of_text : choice.of_tower) << choice.name;
      for (const float value : given.out) ASSERT_TRUE(std::isfinite(value)) << choice.name;
    }
}

// Each level alone, and what a caller's own weights make of all three.
TEST(Ops, LevelSumTakesTheWeightsGiven) {
  const auto by = [](const std::vector<float>& weights) {
    Given given;
    EXPECT_TRUE(attend(given.rows, {.kind = "level-sum",
                                    .share = 0.3,
                                    .scale = 0.3f,
                                    .places = given.places,
                                    .sum_weights = weights}));
    return given.out;
  };
  const auto fine = by({1, 0, 0});
  const auto medium = by({0, 1, 0});
  const auto coarse = by({0, 0, 1});
  EXPECT_NE(fine, medium);
  EXPECT_NE(medium, coarse);
  const auto thirds = by({});
  const auto own = by({0.5f, -2, 3});
  for (size_t i = 0; i < own.size(); ++i) {  // sums of three values of about 1
    ASSERT_NEAR(thirds[i], (fine[i] + medium[i] + coarse[i]) / 3, 1e-6) << i;
    ASSERT_NEAR(own[i], 0.5f * fine[i] - 2 * medium[i] + 3 * coarse[i], 1e-5) << i;
  }
}

TEST(Ops, WhatIsWrongIsSaid) {
  Given given;
  const auto refused = [&](const AttentionOptions& options, const AttentionRows& rows) {
    const Status done = attend(rows, options);
    const Status checked = check_attention(rows, options);
    EXPECT_EQ(static_cast<bool>(checked), static_cast<bool>(done) || rows.head_dim == 6);
    if (!checked) {
      EXPECT_EQ(checked.error().message, done.error().message);
    }
    return !done && !done.error().message.empty();
  };
  EXPECT_TRUE(refused({.kind = "fog"}, given.rows));
  EXPECT_TRUE(refused({.kind = "local3"}, given.rows));  // no places
  EXPECT_TRUE(refused({.share = -1}, given.rows));
  EXPECT_TRUE(refused({.scale = NAN}, given.rows));
  EXPECT_TRUE(refused({.threads = -1}, given.rows));
  const std::vector<float> weights = {1, 2, NAN};
  AttentionOptions sum{.kind = "level-sum", .places = given.places, .sum_weights = weights};
  EXPECT_TRUE(refused(sum, given.rows));  // not finite
  sum.sum_weights = std::span(weights).first(2);
  EXPECT_TRUE(refused(sum, given.rows));  // of three levels
  EXPECT_TRUE(refused({.sum_weights = std::span(weights).first(1)}, given.rows));  // no sum
  const float bias[] = {1, 2};
  EXPECT_TRUE(refused({.causal = true, .level_bias = bias}, given.rows));
  const RowSpan beyond[] = {{0, 31}};
  EXPECT_TRUE(refused({.kind = "prefix", .causal = true, .images = beyond}, given.rows));
  given.places[1] = given.places[0];
  EXPECT_TRUE(refused({.kind = "local3", .places = given.places}, given.rows));
  AttentionRows odd = given.rows;
  odd.head_dim = 6;
  EXPECT_TRUE(refused({}, odd));
  odd = given.rows;
  odd.heads = 3;
  odd.kv_heads = 2;
  EXPECT_TRUE(refused({}, odd));
  EXPECT_FALSE(levels_of(Image(), 2));
  EXPECT_FALSE(levels_of(Image({32, 32}), -1));
}

TEST(Ops, LevelsHalveACanvas) {
  const auto levels = levels_of(Image({70, 33}), 3, 1);
  ASSERT_TRUE(levels);
  ASSERT_EQ(levels->size(), 3u);
  EXPECT_EQ((*levels)[1].size, (Size{35, 17}));
  EXPECT_EQ((*levels)[2].size, (Size{18, 9}));
}

}  // namespace
}  // namespace fovea
