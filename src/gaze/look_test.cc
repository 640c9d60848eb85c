// SPDX-License-Identifier: Apache-2.0
// Looks one after the other: as cells, as crops, and where they went.
#include <gtest/gtest.h>

#include <algorithm>

#include "gaze/gaze.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

Map random_map(Random& random, Grid grid) {
  Map map(grid);
  fill_relevance(random, map);
  return map;
}

Size random_canvas(Random& random) {
  return {kCellPx * random.range(1, 20), kCellPx * random.range(1, 14)};
}

TEST(MakeLook, LooksAreDisjointBestFirstAndThoseOfTheReference) {
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    const Size canvas = random_canvas(random);
    Scene scene{.canvas = canvas};
    if (random.one_in(2)) scene.params.neighbour_bonus = scene.params.crowding = 0;
    std::vector<Cell> seen = {{1, 0, 0}};  // a glance does not keep a look away
    for (int look = 0; look < 3; ++look) {
      const Map map = random_map(random, grid_at(canvas, 0));
      scene.relevance = &map;
      const int64_t left = grid_at(canvas, 0).cells() - static_cast<int64_t>(seen.size()) + 1;
      const int tokens = random.range(0, 40);
      const std::vector<Cell> cells = make_look(scene, tokens, seen);
      EXPECT_EQ(cells, make_look_reference(scene, tokens, seen));
      EXPECT_EQ(static_cast<int64_t>(cells.size()), std::min<int64_t>(tokens, left));
      EXPECT_TRUE(std::is_sorted(cells.begin(), cells.end()));
      for (const Cell& cell : cells) {
        EXPECT_EQ(std::count(seen.begin(), seen.end(), cell), 0) << "inhibition of return";
        seen.push_back(cell);
      }
    }
  }
}

TEST(MakeLook, WithoutBonusTheBestCellsAreTaken) {
  Random random(2);
  const Size canvas{640, 448};
  for (int round = 0; round < 20; ++round) {
    Map map(grid_at(canvas, 0));
    for (uint16_t& score : map.score) score = static_cast<uint16_t>(random.next());
    Scene scene{.canvas = canvas, .relevance = &map};
    scene.params.neighbour_bonus = scene.params.crowding = 0;
    std::vector<uint16_t> sorted = map.score;
    std::sort(sorted.rbegin(), sorted.rend());
    for (const Cell& cell : make_look(scene, 30)) EXPECT_GE(map.at(cell.row, cell.col), sorted[29]);
  }
}

TEST(MakeGlance, IsTheBeginningOfTheGlanceLookPlan) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    const Size canvas = random_canvas(random);
    const Map map = random_map(random, grid_at(canvas, 0));
    const Scene scene{.canvas = canvas, .relevance = &map, .budget_tokens = random.range(1, 120)};
    const auto glance = make_glance(scene);
    const auto plan = make_plan(MakerKind::kGlanceLook, scene);
    ASSERT_TRUE(glance && plan);
    EXPECT_EQ(glance->maker, "glance+look");
    EXPECT_EQ(glance->budget_tokens, plan->budget_tokens);
    ASSERT_LE(glance->cells.size(), plan->cells.size());
    EXPECT_TRUE(std::equal(glance->cells.begin(), glance->cells.end(), plan->cells.begin()));
  }
  EXPECT_FALSE(make_glance({.canvas = {64, 64}, .budget_tokens = 0}));
  EXPECT_FALSE(make_glance({.canvas = {64, 64}, .fixations = {{64, 0}}}));
}

void expect_crops(const std::vector<CellBlock>& crops, Grid grid, int64_t tokens,
                  const std::vector<Cell>& seen) {
  EXPECT_LE(crops.size(), 4u);
  Map taken(grid);
  for (const Cell& cell : seen)
    if (cell.level == 0) taken.at(cell.row, cell.col) = 1;
  int64_t cells = 0;
  for (const CellBlock& crop : crops) {
    ASSERT_TRUE(crop.row_begin >= 0 && crop.row_begin < crop.row_end && crop.row_end <= grid.rows);
    ASSERT_TRUE(crop.col_begin >= 0 && crop.col_begin < crop.col_end && crop.col_end <= grid.cols);
    cells += crop.cells();
    for (int row = crop.row_begin; row < crop.row_end; ++row)
      for (int col = crop.col_begin; col < crop.col_end; ++col) {
        ASSERT_EQ(taken.at(row, col), 0) << row << "," << col << " twice";
        taken.at(row, col) = 1;
      }
  }
  EXPECT_LE(cells, tokens);
}

TEST(MakeCrops, AreDisjointOnTheCanvasAndWithinTheBudget) {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const Size canvas = random_canvas(random);
    const Grid grid = grid_at(canvas, 0);
    const Map map = random_map(random, grid);
    const Scene scene{.canvas = canvas, .relevance = &map};
    std::vector<Cell> seen;
    for (int look = 0; look < 3; ++look) {
      const int tokens = random.range(0, 60);
      const auto crops = make_crops(scene, tokens, seen);
      expect_crops(crops, grid, tokens, seen);
      if (tokens > 0 && static_cast<int64_t>(seen.size()) < grid.cells()) {
        EXPECT_FALSE(crops.empty());
      }
      for (const CellBlock& crop : crops)
        for (int row = crop.row_begin; row < crop.row_end; ++row)
          for (int col = crop.col_begin; col < crop.col_end; ++col) seen.push_back({0, row, col});
    }
  }
}

TEST(MakeCrops, TwoThingsApartAreTwoCropsAndEachIsWhole) {
  const Size canvas{32 * 20, 32 * 12};
  Map map(grid_at(canvas, 0), 500);
  for (int row = 2; row < 4; ++row)
    for (int col = 1; col < 5; ++col) map.at(row, col) = 60000;
  for (int row = 8; row < 11; ++row)
    for (int col = 14; col < 16; ++col) map.at(row, col) = 50000;
  const auto crops = make_crops({.canvas = canvas, .relevance = &map}, 14);
  ASSERT_EQ(crops.size(), 2u);
  EXPECT_TRUE(crops[0].holds({2, 4, 1, 5})) << "the best first";
  EXPECT_TRUE(crops[1].holds({8, 11, 14, 16}));
}

TEST(FindClusters, AreTheMiddlesOfWhatTouches) {
  const Size canvas{32 * 10, 32 * 10};
  Map map(grid_at(canvas, 0));
  map.at(1, 1) = map.at(1, 2) = map.at(2, 3) = 1000;
  map.at(8, 8) = 60000;
  const std::vector<Cell> look = {{2, 0, 0}, {0, 1, 1}, {0, 1, 2}, {0, 2, 3}, {0, 8, 8}};
  const auto middles = find_clusters(look, map, canvas, 5);
  ASSERT_EQ(middles.size(), 2u) << "corners touch; coarse cells do not count";
  EXPECT_EQ(middles[0], (Point{8.5 * 32, 8.5 * 32})) << "the most relevance first";
  EXPECT_NEAR(middles[1].x_px, 32 * (1.5 + 2.5 + 3.5) / 3, 1e-9);
  EXPECT_NEAR(middles[1].y_px, 32 * (1.5 + 1.5 + 2.5) / 3, 1e-9);
  EXPECT_EQ(find_clusters(look, map, canvas, 1).size(), 1u);
  EXPECT_TRUE(find_clusters({}, map, canvas, 3).empty());
}

}  // namespace
}  // namespace fovea
