// SPDX-License-Identifier: Apache-2.0
// The regions of the proportional plan and how they share the budget.
#include "gaze/regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gaze/cell_tree.h"
#include "gaze/gaze.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

TEST(Regions, PartTheCanvasIntoAtMostOneForEach64Tokens) {
  Random random(36);
  for (int i = 0; i < 5'000; ++i) {
    const Grid grid =
        i % 2 == 0 ? random_grid(random, 200) : Grid{random.range(1, 100), random.range(1, 100)};
    const CellTree tree(canvas_of(grid));
    const int budget = random.range(1, 4'000);
    const std::vector<CellBlock> regions = region_blocks(tree, budget);
    ASSERT_LE(static_cast<int64_t>(regions.size()), std::max(1, budget / 64));
    std::vector<int> covered(static_cast<size_t>(grid.cells()), 0);
    for (const CellBlock& region : regions)
      for (int row = region.row_begin; row < region.row_end; ++row)
        for (int col = region.col_begin; col < region.col_end; ++col)
          ++covered[static_cast<size_t>(row) * grid.cols + col];
    ASSERT_EQ(std::count(covered.begin(), covered.end(), 1), grid.cells());
    const TokenLimits limits = token_limits(regions, budget);
    int64_t least = 0;
    int64_t most = 0;
    for (const TokenBounds& bound : limits.bounds) {
      ASSERT_LE(bound.most, kRegionMaxTokens)
          << "only where the budget could not be spent otherwise";
      least += bound.least;
      most += bound.most;
    }
    ASSERT_TRUE(least <= limits.total && limits.total <= most) << grid.rows << "x" << grid.cols;
  }
}

TEST(Regions, GrowInNumberWithTheBudget) {
  const CellTree tree({4096, 4096});
  EXPECT_EQ(region_blocks(tree, 63).size(), 1u);
  EXPECT_EQ(region_blocks(tree, 255).size(), 1u);
  EXPECT_EQ(region_blocks(tree, 512).size(), 4u);
  EXPECT_EQ(region_blocks(tree, 2'048).size(), 16u);
}

TEST(SoftmaxWeights, EqualTheExponential) {
  const std::array<double, 4> relevance = {0.1, 0.9, 0.35, 0.9};
  const std::vector<double> weights = softmax_weights(relevance, 0.05);
  for (size_t i = 0; i < relevance.size(); ++i) {
    const double expected = std::exp((relevance[i] - 0.9) / 0.05);
    EXPECT_NEAR(weights[i] / expected, 1, 1e-9);  // twelve squarings multiply rounding by 4096
  }
  for (const double weight : softmax_weights(relevance, 1e-300)) EXPECT_GT(weight, 0);
}

TEST(ShareTokens, EqualsItsReferenceAndFillsToTheLevelOfTheWater) {
  Random random(37);
  for (int i = 0; i < 2'000; ++i) {
    std::vector<double> weights;
    std::vector<TokenBounds> bounds;
    int64_t least = 0;
    int64_t most = 0;
    for (int region = random.range(1, 12); region > 0; --region) {
      weights.push_back(random.one_in(3) ? 0.5 : random.unit() + 1e-6);
      bounds.push_back({random.range(0, 64), random.range(64, 400)});
      least += bounds.back().least;
      most += bounds.back().most;
    }
    const int64_t total = random.range(static_cast<int>(least), static_cast<int>(most));
    const std::vector<int64_t> tokens = share_tokens(weights, bounds, total);
    ASSERT_EQ(tokens, share_tokens_reference(weights, bounds, total));
    int64_t sum = 0;
    for (size_t a = 0; a < tokens.size(); ++a) {
      sum += tokens[a];
      ASSERT_TRUE(bounds[a].least <= tokens[a] && tokens[a] <= bounds[a].most);
      // No token would do better elsewhere.
      for (size_t b = 0; b < tokens.size(); ++b)
        if (tokens[a] > bounds[a].least && tokens[b] < bounds[b].most) {
          ASSERT_GE(weights[a] / static_cast<double>(tokens[a]),
                    weights[b] / static_cast<double>(tokens[b] + 1));
        }
    }
    ASSERT_EQ(sum, total);
  }
}

TEST(Proportional, ARegionOfEvenDetailIsReadAtOneLevelWith20x20To8x8Cells) {
  for (const int side : {20, 16, 12, 8}) {
    for (const int level : {0, 1, 2, 3}) {
      const int cells = side << level;
      Setting setting({cells, cells}, side * side, score(0.5));
      const CellTree tree(setting.scene.canvas);
      const std::vector<Cell> plan = setting.plan(MakerKind::kProportional);
      EXPECT_EQ(plan, tree.cells_of(level)) << side << " at level " << level;
    }
  }
}

TEST(Proportional, MoreRelevantRegionsGetMoreTokensWithinTheirBounds) {
  Setting setting({64, 64}, 1'024, score(0.1));
  const CellTree tree(setting.scene.canvas);
  const std::vector<CellBlock> regions = region_blocks(tree, 1'024);
  ASSERT_GE(regions.size(), 4u);
  const CellBlock best = regions[2];
  for (int row = best.row_begin; row < best.row_end; ++row)
    for (int col = best.col_begin; col < best.col_end; ++col)
      setting.relevance.at(row, col) = score(0.9);
  const std::vector<Cell> plan = setting.plan(MakerKind::kProportional);
  EXPECT_EQ(plan.size(), 1'024u);
  for (const CellBlock& region : regions) {
    const auto tokens = std::count_if(
        plan.begin(), plan.end(), [&](const Cell& cell) { return region.holds(tree.block(cell)); });
    EXPECT_GE(tokens, kRegionMinTokens);
    EXPECT_LE(tokens, kRegionMaxTokens);
    if (region.row_begin == best.row_begin && region.col_begin == best.col_begin) {
      EXPECT_EQ(tokens, kRegionMaxTokens);
    }
  }
}

}  // namespace
}  // namespace fovea
