// SPDX-License-Identifier: Apache-2.0
#include "relevance/coupling.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace fovea {
namespace {

Map random_map(Grid grid, uint32_t seed) {
  std::mt19937 random(seed);
  Map map(grid);
  for (uint16_t& score : map.score) score = static_cast<uint16_t>(random());
  return map;
}

TEST(CoupleMap, EqualsTheReferenceBetweenAnyTwoGrids) {
  for (const Size canvas :
       {Size{32, 32}, Size{96, 64}, Size{800, 608}, Size{1, 77}, Size{1000, 330}}) {
    for (int level = 0; level < level_count(canvas); ++level) {
      std::vector<Grid> grids = {{1, 1}, {3, 2}, {7, 11}, {24, 24}, {1, 40}};
      for (int from = 0; from < level_count(canvas); ++from) grids.push_back(grid_at(canvas, from));
      for (const Grid grid : grids) {
        const Map given = random_map(grid, static_cast<uint32_t>(grid.rows * 100 + grid.cols));
        const Result<Map> fast = couple_map(given, canvas, level);
        ASSERT_TRUE(fast);
        // Equal: the same products are summed in the same order, the reference adds zeros between.
        EXPECT_EQ(fast->score, couple_map_reference(given, canvas, level).score)
            << canvas.width_px << "x" << canvas.height_px << " level " << level << " from "
            << grid.rows << "x" << grid.cols;
      }
    }
  }
}

TEST(CoupleMap, FromACoarserLevelEveryCellTakesItsAncestorsScore) {
  const Size canvas{800, 608};
  const Map coarse = random_map(grid_at(canvas, 2), 5);
  const Result<Map> fine = couple_map(coarse, canvas, 0);
  ASSERT_TRUE(fine);
  for (int row = 0; row < fine->grid.rows; ++row)
    for (int col = 0; col < fine->grid.cols; ++col)
      EXPECT_EQ(fine->at(row, col), coarse.at(row / 4, col / 4));
}

TEST(CoupleMap, FromAFinerLevelEveryCellTakesTheMeanOfTheCellsThatExist) {
  const Size canvas{96, 32};
  Map fine(grid_at(canvas, 0));
  fine.score = {1000, 3001, 50000};
  const Result<Map> coarse = couple_map(fine, canvas, 1);
  ASSERT_TRUE(coarse);
  EXPECT_EQ(coarse->score, (std::vector<uint16_t>{2001, 50000}));  // the half rounds up
}

TEST(CoupleMap, AConstantMapStaysConstantAndItsOwnGridIsUntouched) {
  const Size canvas{1000, 330};
  for (const Grid grid : {Grid{3, 7}, Grid{50, 50}, grid_at(canvas, 1)}) {
    const Result<Map> map = couple_map(Map(grid, 65535), canvas, 0);
    ASSERT_TRUE(map);
    for (const uint16_t score : map->score) EXPECT_EQ(score, 65535);
  }
  const Map same = random_map(grid_at(canvas, 1), 3);
  EXPECT_EQ(couple_map(same, canvas, 1)->score, same.score);
}

TEST(CoupleMap, RefusesAMapThatIsNoGridAndALevelThatIsNotThere) {
  Map broken(Grid{2, 2});
  broken.score.pop_back();
  const Result<Map> short_map = couple_map(broken, {64, 64}, 0);
  ASSERT_FALSE(short_map);
  EXPECT_NE(short_map.error().message.find("3 scores for a grid of 2 rows"), std::string::npos);
  EXPECT_FALSE(couple_map(Map(), {64, 64}, 0));
  const Result<Map> no_level = couple_map(Map(Grid{2, 2}), {64, 64}, 2);
  ASSERT_FALSE(no_level);
  EXPECT_EQ(no_level.error().kind, Error::Kind::kBadInput);
  EXPECT_FALSE(couple_map(Map(Grid{2, 2}), {64, 64}, -1));
}

TEST(CouplePoints, IsOneAtAPointHalfATenthOfTheLongerSideAwayAndFollowsTheNearest) {
  const Size canvas{640, 320};
  const std::vector<Point> points = {{16, 16}, {624, 304}};
  const Map map = couple_points(points, canvas);
  ASSERT_EQ(map.grid, grid_at(canvas, 0));
  EXPECT_EQ(map.at(0, 0), 65535);
  EXPECT_EQ(map.at(9, 19), 65535);
  EXPECT_EQ(map.at(0, 2), 32768) << "64 px away";
  EXPECT_EQ(map.at(2, 0), map.at(0, 2));
  EXPECT_LT(map.at(5, 10), 500) << "far from both";
  EXPECT_EQ(couple_points({}, canvas).score, std::vector<uint16_t>(200, 0)) << "no points, nothing";
}

}  // namespace
}  // namespace fovea
