// SPDX-License-Identifier: Apache-2.0
// Every policy of the table against plain loops, and what all of them promise.
#include "memory/forget/forget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "memory/key_values.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

constexpr int kHeads = 2;
constexpr int kDim = 8;
constexpr int64_t kWidth = kHeads * kDim;

// Images of some rows and columns of tokens, text before each, in layers of random keys.
struct Case {
  std::vector<KeyValues> layers;
  std::vector<int64_t> at;
  std::vector<int64_t> image_ends;
  std::vector<TokenLink> links;
  std::vector<std::vector<float>> mass;
  std::vector<ForgetLayer> seen;

  Case(const std::vector<std::pair<int, int>>& grids, int layer_count, uint32_t seed) {
    std::mt19937 random(seed);
    int64_t row = 0;
    for (const auto& [rows, cols] : grids) {
      row += 3;
      const auto first = static_cast<int32_t>(at.size());
      for (int32_t i = 0; i < rows * cols; ++i) {
        at.push_back(row++);
        if (i > 0) links.push_back({first + i - 1, first + i});
        if (i >= cols) links.push_back({first + i - cols, first + i});
      }
      image_ends.push_back(static_cast<int64_t>(at.size()));
    }
    const int64_t keys = row + 5;
    std::uniform_real_distribution<float> chance(0, 1);
    for (int i = 0; i < layer_count; ++i) {
      layers.emplace_back(unbounded_pages(kHeads, kDim), kHeads, kDim);
      const auto k = random_values(static_cast<size_t>(keys * kWidth), random);
      const auto v = random_values(static_cast<size_t>(keys * kWidth), random);
      layers.back().append(k.data(), kWidth, v.data(), kWidth, keys);
      std::vector<float>& own = mass.emplace_back();
      for (size_t t = 0; t < at.size(); ++t) own.push_back(std::pow(chance(random), 4.0f));
      for (size_t t = 0; t + 2 < at.size(); t += 7) own[t + 2] = own[t];  // some are equal
    }
    for (int i = 0; i < layer_count; ++i)
      seen.push_back({.keys = layers[static_cast<size_t>(i)].view(),
                      .mass = mass[static_cast<size_t>(i)],
                      .density = chance(random)});
  }
  ForgetScene scene() const { return {at, image_ends, links, seen}; }
};

const std::vector<std::vector<std::pair<int, int>>> kGrids = {
    {{1, 1}}, {{2, 1}}, {{5, 7}}, {{9, 11}}, {{3, 4}, {1, 1}, {6, 5}}};

// The sum of squared distances of rows to the mean they become, which merging keeps small.
double spread(const Case& given, size_t layer, const KeptRows& kept) {
  double sum = 0;
  for (int32_t row = 0; row < kept.rows; ++row)
    for (int head = 0; head < kHeads; ++head)
      for (const bool value : {false, true})
        for (int d = 0; d < kDim; ++d) {
          double mean = 0;
          double squares = 0;
          double count = 0;
          for (size_t t = 0; t < kept.row_of.size(); ++t) {
            if (kept.row_of[t] != row) continue;
            const PagedKeys& rows = given.seen[layer].keys;  // of f32
            const int64_t at = given.seen[layer].first_row + given.scene().at[t];
            const double x = (value ? rows.value(head, at) : rows.key(head, at))[d];
            mean += x, squares += x * x, ++count;
          }
          sum += squares - mean * mean / count;
        }
  return sum;
}

TEST(Forget, EveryPolicyKeepsWhatItsSpecificationKeepsForAnyNumberOfThreads) {
  for (const ForgetPolicyRow& row : forget_policies())
    for (size_t grid = 0; grid < kGrids.size(); ++grid)
      for (const int layers : {1, 3})
        for (const double keep : {0.01, 0.1, 0.34, 0.5, 0.97}) {
          const Case given(kGrids[grid], layers, static_cast<uint32_t>(17 * grid + layers));
          const ForgetSettings settings{keep, row.policy, 5};
          const auto expected = choose_rows_reference(given.scene(), settings);
          for (const int count : {1, 2, 3}) {
            Threads threads(count);
            const auto got = choose_rows(threads, given.scene(), settings);
            ASSERT_EQ(got.size(), expected.size());
            for (size_t i = 0; i < got.size(); ++i) {
              const std::string where = std::string(row.name) + ", grid " + std::to_string(grid) +
                                        ", keep " + std::to_string(keep) + ", layer " +
                                        std::to_string(i);
              ASSERT_EQ(got[i].rows, expected[i].rows) << where;
              if (row.policy != ForgetPolicy::kMerge) {
                ASSERT_EQ(got[i].row_of, expected[i].row_of) << where;
              } else {  // rounding may have chosen another of two pairs that cost the same
                const double least = spread(given, i, expected[i]);
                ASSERT_NEAR(spread(given, i, got[i]), least, 1e-3 * least + 1e-9) << where;
              }
            }
          }
        }
}

TEST(Forget, KeepsTheShareToTheRowAndNumbersRowsByTheirFirstToken) {
  Threads threads(2);
  for (const ForgetPolicyRow& row : forget_policies())
    for (const double keep : {0.001, 0.1, 0.25, 0.5, 0.999}) {
      const Case given({{12, 13}, {7, 9}}, 4, 3);
      const auto kept = choose_rows(threads, given.scene(), {keep, row.policy, 1});
      int64_t sum = 0;
      for (const KeptRows& one : kept) {
        sum += one.rows;
        EXPECT_GE(one.rows, 1) << row.name;
        int32_t next = 0;
        for (const int32_t to : one.row_of) {
          ASSERT_LE(to, next) << row.name;
          next += to == next ? 1 : 0;
        }
        EXPECT_EQ(next, one.rows) << row.name;
      }
      // Merging leaves a row to each image.
      const int64_t least = row.policy == ForgetPolicy::kMerge ? 8 : 4;
      EXPECT_EQ(sum, std::max<int64_t>(least, std::llround(keep * 219 * 4))) << row.name;
    }
}

TEST(Forget, LayersGetRowsByNeedWithinTheirBounds) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> needs(1 + random() % 9);
    for (double& need : needs) need = random() % 4 == 0 ? 0 : std::pow(random() % 100 / 20.0, 3);
    const int64_t tokens = 1 + static_cast<int64_t>(random() % 300);
    const double keep = (1 + random() % 100) / 100.0;
    const auto got = layer_budgets(needs, tokens, keep);
    const auto expected = layer_budgets_reference(needs, tokens, keep);
    EXPECT_EQ(std::accumulate(got.begin(), got.end(), int64_t{0}),
              std::accumulate(expected.begin(), expected.end(), int64_t{0}));
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(got[i], tokens);
      EXPECT_GE(got[i], 1);
      EXPECT_LE(std::abs(got[i] - expected[i]), 1) << "trial " << trial << ", layer " << i;
    }
  }
}

TEST(Forget, ADenseLayerKeepsMore) {
  const auto rows = layer_budgets(std::vector<double>{0.3, 0.1, 0.2}, 1000, 0.2);
  EXPECT_EQ(rows, (std::vector<int64_t>{300, 100, 200}));
}

TEST(Forget, NamesAreThoseOfTheTable) {
  for (const ForgetPolicyRow& row : forget_policies()) {
    EXPECT_EQ(&row_of(row.policy), &row);
    EXPECT_EQ(*find_forget_policy(row.name), row.policy);
  }
  EXPECT_NE(find_forget_policy("sieve").error().message.find("\"sieve\"; choose one of vl-cache, "),
            std::string::npos);
  for (const double keep : {0.0, -0.1, 1.01, std::nan("")})
    EXPECT_FALSE(forget_settings(keep, "", 0));
  EXPECT_FALSE(forget_settings(1, "", 0)->forgets());
  EXPECT_EQ(forget_settings(0.5, "merge", 0)->policy, ForgetPolicy::kMerge);
}

// The pool has what --keep promises: whole pages of the text and of that share.
TEST(Forget, BytesInThePoolAreThoseThatWerePromised) {
  constexpr int kLayers = 3;
  constexpr int64_t kTokens = 16000;
  constexpr int64_t kText = 100;
  const Case given({{125, 128}}, kLayers, 8);
  std::mt19937 random(1);
  const auto values = random_values(static_cast<size_t>((kTokens + kText) * kWidth), random);
  Threads threads(2);
  for (const ForgetPolicyRow& row : forget_policies())
    for (const double keep : {0.1, 0.5}) {
      const auto pool = std::make_shared<PagePool>(PagePool::Settings{
          .page_bytes = page_bytes_for(kHeads, kDim), .capacity_bytes = int64_t{1} << 30});
      const auto reservation = std::make_shared<Reservation>(pool);
      std::vector<KeyValues> layers;
      for (int i = 0; i < kLayers; ++i) {
        layers.emplace_back(reservation, kHeads, kDim);
        layers.back().append(values.data(), kWidth, values.data(), kWidth, kTokens + kText);
      }
      const auto kept = choose_rows(threads, given.scene(), {keep, row.policy, 1});
      for (size_t i = 0; i < layers.size(); ++i) layers[i].keep(40, kept[i]);
      const double token_bytes = 2.0 * kWidth * sizeof(float);
      const double promised = kLayers * token_bytes * (kText + keep * kTokens);
      EXPECT_NEAR(static_cast<double>(pool->usage().resident), promised, 0.05 * promised)
          << row.name << ", keep " << keep;
    }
}

}  // namespace
}  // namespace fovea
