// SPDX-License-Identifier: Apache-2.0
// What the plans that follow relevance do with maps whose right answer is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "gaze/cell_tree.h"
#include "gaze/gaze.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

int level_of(const std::vector<Cell>& cells, int row, int col) {
  int finest = 99;
  for (const Cell& cell : cells)
    if (row >> cell.level == cell.row && col >> cell.level == cell.col)
      finest = std::min(finest, cell.level);
  return finest;
}

TEST(Thresholds, WithoutABudgetEveryCellIsReadAtLeastAsFineAsItsRelevanceWants) {
  Random random(32);
  for (int i = 0; i < 200; ++i) {
    Setting setting({random.range(1, 40), random.range(1, 40)}, 0, 0);
    fill_relevance(random, setting.relevance);
    const std::vector<Cell> cells = setting.plan(MakerKind::kThresholds);
    const CellTree tree(setting.scene.canvas);
    const int top = tree.levels() - 1;
    for (const Cell& cell : cells) {
      uint16_t highest = 0;
      uint16_t highest_of_parent = 0;
      const CellBlock block = tree.block(cell);
      for (int row = block.row_begin; row < block.row_end; ++row)
        for (int col = block.col_begin; col < block.col_end; ++col)
          highest = std::max(highest, setting.relevance.at(row, col));
      const auto wanted = [&](uint16_t value) {
        return std::min(value > 0.8 * 65535   ? 0
                        : value > 0.5 * 65535 ? 1
                        : value > 0.2 * 65535 ? 2
                                              : 3,
                        top);
      };
      ASSERT_LE(cell.level, wanted(highest));
      // ... and no finer than the best cell beside it under the same parent asks for.
      if (cell.level == top) continue;
      const CellBlock parent = tree.block({cell.level + 1, cell.row / 2, cell.col / 2});
      for (int row = parent.row_begin; row < parent.row_end; ++row)
        for (int col = parent.col_begin; col < parent.col_end; ++col)
          highest_of_parent = std::max(highest_of_parent, setting.relevance.at(row, col));
      ASSERT_GE(cell.level, wanted(highest_of_parent));
    }
  }
}

TEST(Thresholds, ARelevanceOfExactlyAThresholdDoesNotPassIt) {
  Setting setting({8, 8}, 0, score(0.5));  // 0.5 is no whole score: 32768 lies above it
  EXPECT_EQ(level_of(setting.plan(MakerKind::kThresholds), 0, 0), 1);
  setting.relevance = Map({8, 8}, 52'428);  // 0.8 exactly
  EXPECT_EQ(level_of(setting.plan(MakerKind::kThresholds), 0, 0), 1);
  setting.relevance = Map({8, 8}, 52'429);
  EXPECT_EQ(level_of(setting.plan(MakerKind::kThresholds), 0, 0), 0);
  setting.relevance = Map({8, 8}, 0);
  EXPECT_EQ(level_of(setting.plan(MakerKind::kThresholds), 0, 0), 3);
}

TEST(Thresholds, TheBudgetThatNoBudgetUsesGivesTheSamePlan) {
  Random random(33);
  for (int i = 0; i < 200; ++i) {
    Setting setting({random.range(1, 30), random.range(1, 30)}, 0, 0);
    for (uint16_t& value : setting.relevance.score) value = static_cast<uint16_t>(random.next());
    const std::vector<Cell> free = setting.plan(MakerKind::kThresholds);
    setting.scene.budget_tokens = static_cast<int>(free.size());
    const std::vector<Cell> shifted = setting.plan(MakerKind::kThresholds);
    // Splits that add nothing at the canvas's corner are taken as well, so compare the count.
    EXPECT_EQ(free.size(), shifted.size()) << i;
  }
}

TEST(Thresholds, ASmallBudgetOnALargeCanvasStillFollowsRelevance) {
  Setting setting({256, 256}, 96, score(0.1));
  setting.relevance.at(200, 30) = score(0.9);
  const std::vector<Cell> cells = setting.plan(MakerKind::kThresholds);
  EXPECT_LE(level_of(cells, 200, 30), level_of(cells, 250, 250) - 2);
}

TEST(Quadtree, DetailInARelevantPlaceIsReadFinestAndDullPlacesStayCoarse) {
  Setting setting({32, 32}, 68, score(0.1));
  for (int row = 4; row < 8; ++row)
    for (int col = 20; col < 24; ++col) setting.relevance.at(row, col) = score(0.9);
  const std::vector<Cell> cells = setting.plan(MakerKind::kQuadtree);
  for (int row = 4; row < 8; ++row)
    for (int col = 20; col < 24; ++col) EXPECT_EQ(level_of(cells, row, col), 0);
  EXPECT_EQ(level_of(cells, 28, 2), 3);
}

TEST(Quadtree, WithEvenDetailAndRelevanceLevelsDifferByOneAtMost) {
  const Setting setting({32, 32}, 96, score(0.5));
  std::set<int> levels;
  for (const Cell& cell : setting.plan(MakerKind::kQuadtree)) levels.insert(cell.level);
  EXPECT_EQ(levels, (std::set<int>{1, 2}));
}

TEST(Quadtree, NoDetailNoSplitWhileOthersHaveSome) {
  Setting setting({32, 32}, 96, score(0.5));
  const CellTree tree(setting.scene.canvas);
  // The left half is sky: reading it coarse loses nothing.
  for (int level = 1; level < 5; ++level)
    for (const Cell& cell : tree.cells_of(level))
      if (cell.col < tree.grid(level).cols / 2)
        setting.detail.lost[static_cast<size_t>(level)]
                           [static_cast<size_t>(cell.row) * tree.grid(level).cols + cell.col] = 0;
  for (const Cell& cell : setting.plan(MakerKind::kQuadtree))
    if (cell.col < tree.grid(cell.level).cols / 2) {
      EXPECT_EQ(cell.level, 2);
    }
}

// The look alone: what is not of the glance.
std::vector<Cell> look(const Setting& setting) {
  std::vector<Cell> cells = setting.plan(MakerKind::kGlanceLook);
  std::erase_if(cells, [](const Cell& cell) { return cell.level > 0; });
  return cells;
}

TEST(GlanceLook, ClosesTheGapInAThingThatTopKLeavesOpen) {
  Setting setting({32, 32}, 64 + 33, 0);
  Random random(34);
  for (uint16_t& value : setting.relevance.score)
    value = static_cast<uint16_t>(random.range(0, 40'000));
  for (int col = 10; col < 20; ++col) setting.relevance.at(12, col) = score(0.9);
  setting.relevance.at(12, 15) = score(0.56);  // a weak letter in a strong word
  EXPECT_EQ(level_of(look(setting), 12, 15), 0);
  // The same word without the bonus, in a map with enough stronger cells elsewhere.
  setting.scene.params.neighbour_bonus = 0;
  EXPECT_NE(level_of(look(setting), 12, 15), 0);
}

TEST(GlanceLook, LeavesALargeThingForASecondOneThatIsAlmostAsRelevant) {
  Setting setting({32, 32}, 128, 0);  // a look of 64 cells
  for (int row = 0; row < 10; ++row)
    for (int col = 0; col < 10; ++col) setting.relevance.at(row, col) = score(0.80);
  setting.relevance.at(25, 25) = score(0.79);
  const std::vector<Cell> diverse = look(setting);
  EXPECT_EQ(level_of(diverse, 25, 25), 0);
  setting.scene.params.crowding = 0;
  EXPECT_NE(level_of(look(setting), 25, 25), 0);
}

TEST(GlanceLook, WithoutBonusAndCrowdingTheLookIsTopK) {
  Random random(35);
  Setting setting({20, 30}, 60, 0);
  fill_relevance(random, setting.relevance);
  setting.scene.params.neighbour_bonus = 0;
  setting.scene.params.crowding = 0;
  const std::vector<Cell> cells = look(setting);
  setting.scene.budget_tokens = static_cast<int>(cells.size());
  EXPECT_EQ(cells, setting.plan(MakerKind::kTopK));
}

}  // namespace
}  // namespace fovea
