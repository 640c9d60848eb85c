// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/level_sum.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/attention/sparse/kinds.h"
#include "ops/attention/sparse/mean_keys.h"
#include "ops/attention/sparse/test_rows.h"

namespace fovea {
namespace {

using test::grid;
using test::shapes;
using test::SparseCase;
using test::SparseShape;

constexpr LevelWeights kWeights = {0.7f, -0.4f, 0.9f};

std::vector<double> specified(const SparseCase& made, const LevelChoice& choice,
                              const LevelWeights& weights) {
  const MeanKeySets keys = mean_keys_of(made.given(), choice);
  return attend_to_means({made.given(), keys, weights}, {0, made.rows.blocks()});
}

std::vector<float> computed(Threads& threads, const SparseCase& made, const LevelChoice& choice,
                            const LevelWeights& weights) {
  auto out = poisoned(static_cast<size_t>(made.rows.rows() * made.width));
  attend_by_levels(threads, made.given(), choice, weights, out.data(), made.width);
  return out;
}

template <class Expected>
void expect_near(const std::vector<float>& got, const Expected& expected,
                 const std::string& where) {
  ASSERT_EQ(got.size(), expected.size()) << where;
  for (size_t i = 0; i < got.size(); ++i)  // scores to about 30: 30 * 1e-7 of a weight, values to 5
    ASSERT_NEAR(got[i], expected[i], 6e-5) << where << ", value " << i;
}

TEST(LevelSum, EqualsItsReferenceForEveryTargetAndNumberOfThreads) {
  std::mt19937 random(3);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    Threads one(1);
    const LevelChoice choice = choose_levels(one, made.given(), 2);
    const std::vector<double> expected = specified(made, choice, kWeights);
    on_every_target([&](const std::string& target) {
      std::vector<float> first;
      for (const int count : {1, 2, 3}) {
        Threads threads(count);
        const std::vector<float> got = computed(threads, made, choice, kWeights);
        expect_near(got, expected, shape.name + (", " + target));
        if (first.empty()) first = got;
        EXPECT_TRUE(same_bits(got, first)) << shape.name << ", " << count << " threads";
      }
    });
  }
}

TEST(LevelSum, EachLevelAloneIsTheAttentionItsNameSays) {
  std::mt19937 random(4);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    Threads threads(2);
    const LevelChoice all = choose_levels(threads, made.given(), made.rows.blocks());
    std::vector<float> expected(static_cast<size_t>(made.rows.rows() * made.width));
    // Every row: dense.
    attention_reference(made.q.data(), made.q_stride(), made.rows.rows(), made.view, made.params,
                        expected.data(), made.width);
    expect_near(computed(threads, made, all, {1, 0, 0}), expected, shape.name);
    // Every group: dense to their means.
    AttentionParams params = made.params;
    params.key_bias = made.pooled->biases();
    attention_reference(made.q.data(), made.q_stride(), made.rows.rows(), made.pooled->view(),
                        params, expected.data(), made.width);
    expect_near(computed(threads, made, all, {0, 1, 0}), expected, shape.name);
  }
}

// Where all rows of a block are alike, coarse is dense.
TEST(LevelSum, BlocksCountAsTheirRows) {
  std::mt19937 random(5);
  SparseCase made({"grid", grid(21, 18), 2, 1, 12}, random);
  PlainKeys alike(1, 12);
  for (int block = 0; block < made.rows.blocks(); ++block) {
    const auto k = random_values(12, random, 2);
    const auto v = random_values(12, random);
    for (int32_t row = made.rows.first_row(block); row < made.rows.end_row(block); ++row)
      alike.append(k.data(), 12, v.data(), 12, 1);
  }
  made.view = alike.view();
  Threads threads(2);
  const LevelChoice choice = choose_levels(threads, made.given(), 1);
  std::vector<float> expected(static_cast<size_t>(made.rows.rows() * made.width));
  attention_reference(made.q.data(), made.q_stride(), made.rows.rows(), made.view, made.params,
                      expected.data(), made.width);
  expect_near(computed(threads, made, choice, {0, 0, 1}), expected, "coarse");
}

TEST(LevelSum, TheBestBlocksAreAmongTheBetterOnes) {
  std::mt19937 random(6);
  const SparseCase made({"grid", grid(70, 61), 2, 2, 16}, random);
  Threads threads(2);
  const LevelChoice choice = choose_levels(threads, made.given(), 7);
  const MeanKeySets keys = mean_keys_of(made.given(), choice);
  for (size_t i = 0; i < keys.sets.size(); i += kSumLevels) {
    std::vector<bool> medium(static_cast<size_t>(made.rows.rows()));
    size_t rows = 0;
    for (const MeanKey& key : keys.sets[i + 1])
      for (int32_t row = key.first; row < key.first + key.count; ++row, ++rows)
        medium[static_cast<size_t>(row)] = true;
    for (const MeanKey& key : keys.sets[i]) EXPECT_TRUE(medium[static_cast<size_t>(key.first)]);
    EXPECT_LE(rows, 18u * 64);
    EXPECT_LE(keys.sets[i].size(), 7u * 64);
    EXPECT_EQ(keys.sets[i + 2].size(), static_cast<size_t>(made.rows.blocks()));
  }
  EXPECT_LT(choice.share(made.rows), 0.15);
}

TEST(MeanKeys, AreWhatAttentionToChosenKeysSees) {
  std::mt19937 random(7);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    Threads threads(2);
    for (const AttentionKind kind :
         {AttentionKind::kHierarchical, AttentionKind::kTopBlocks, AttentionKind::kLinformer}) {
      const ChosenKeys chosen = choose_by_kind(threads, made.given(), {kind, 0.3});
      const MeanKeySets keys = mean_keys_of(made.given(), chosen);
      const float one = 1;
      const auto means = attend_to_means({made.given(), keys, {&one, 1}}, {0, made.rows.blocks()});
      std::vector<float> expected(means.size());
      attention_to_chosen_reference(made.given(), chosen, {0, made.rows.blocks()}, expected.data(),
                                    made.width);
      expect_near(expected, means, shape.name);
    }
  }
}

// The gradients against central differences of sum(out * to), in f64. Steps of 1e-5 leave errors
// of about 1e-10, by the third derivative and by rounding.
void check_gradients(MeanAttention made, std::mt19937& random, const std::string& where) {
  const BlockRange all{0, made.rows->blocks()};
  std::normal_distribution<double> normal;
  std::vector<double> to(made.q.size());
  for (double& value : to) value = normal(random);
  const MeanGradients gradients = attend_to_means_backward(made, to);
  const auto loss = [&] {
    const std::vector<double> out = attend_to_means(made, all);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * to[i];
    return sum;
  };
  const auto check = [&](std::vector<double>& values, const std::vector<double>& got,
                         const char* what) {
    ASSERT_EQ(values.size(), got.size());
    double largest = 0;
    for (int i = 0; i < 24; ++i) {
      const size_t at =
          values.size() <= 24 ? static_cast<size_t>(i) % values.size() : random() % values.size();
      constexpr double kStep = 1e-5;
      const double kept = values[at];
      values[at] = kept + kStep;
      const double above = loss();
      values[at] = kept - kStep;
      const double below = loss();
      values[at] = kept;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(got[at], expected, 1e-7 * (1 + std::abs(expected)))
          << where << ", " << what << " " << at;
      largest = std::max(largest, std::abs(expected));
    }
    EXPECT_GT(largest, 1e-3) << where << ": no gradient of " << what << " to compare with";
  };
  check(made.q, gradients.q, "q");
  check(made.k, gradients.k, "k");
  check(made.v, gradients.v, "v");
  check(made.weights, gradients.weights, "weight");
}

std::vector<SparseShape> odd_shapes() {
  std::vector<GridPlace> levels = grid(5, 3, 1);
  for (int i = 0; i < 25; ++i) levels.push_back({0, i * 3 % 17, i * 3 / 17});
  return {{"odd", grid(17, 5), 3, 1, 4, true},
          {"two heads a key", grid(11, 13), 4, 2, 8},
          {"a row of rows", grid(37, 1), 1, 1, 12},
          {"mixed levels", levels, 2, 2, 4, true}};
}

TEST(LevelSum, GradientsOfInputsAndWeightsAreThoseOfCentralDifferences) {
  std::mt19937 random(8);
  for (const SparseShape& shape : odd_shapes()) {
    const SparseCase made(shape, random);
    Threads threads(1);
    const MeanKeySets keys = mean_keys_of(made.given(), choose_levels(threads, made.given(), 1));
    check_gradients({made.given(), keys, kWeights}, random, shape.name);
  }
}

TEST(Hierarchical, GradientsOfInputsAreThoseOfCentralDifferences) {
  std::mt19937 random(9);
  const float weight = 1.25f;
  for (const SparseShape& shape : odd_shapes()) {
    const SparseCase made(shape, random);
    Threads threads(1);
    const ChosenKeys chosen = choose_best_blocks(threads, made.given(), 1, OtherBlocks::kPooled);
    const MeanKeySets keys = mean_keys_of(made.given(), chosen);
    check_gradients({made.given(), keys, {&weight, 1}}, random, shape.name);
  }
}

// One row is its own mean at every level: out is v times the sum of the weights, whatever q is.
TEST(LevelSum, OneRowGetsItsOwnValue) {
  std::mt19937 random(10);
  const SparseCase made({"one row", grid(1, 1), 2, 1, 8}, random);
  Threads threads(1);
  const LevelChoice choice = choose_levels(threads, made.given(), 1);
  const std::vector<float> out = computed(threads, made, choice, kWeights);
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_NEAR(out[i], (0.7f - 0.4f + 0.9f) * made.view.value(0, 0)[i % 8], 1e-6);
  const MeanKeySets keys = mean_keys_of(made.given(), choice);
  const auto gradients =
      attend_to_means_backward({made.given(), keys, kWeights}, std::vector<double>(out.size(), 1));
  for (const double value : gradients.q) EXPECT_NEAR(value, 0, 1e-12);
  for (const double value : gradients.k) EXPECT_NEAR(value, 0, 1e-12);
  for (const double value : gradients.v) EXPECT_NEAR(value, 2 * 1.2, 1e-6);
}

}  // namespace
}  // namespace fovea
