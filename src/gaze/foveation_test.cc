// SPDX-License-Identifier: Apache-2.0
// Fixations and the cortical plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gaze/cell_tree.h"
#include "gaze/gaze.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

TEST(FindFixations, TheFirstIsTheMiddleOfTheHighestCell) {
  Map map({10, 20});
  map.at(3, 7) = 900;
  map.at(8, 15) = 1000;
  const std::vector<Point> fixations = find_fixations(map, canvas_of(map.grid), 2);
  EXPECT_EQ(fixations,
            (std::vector<Point>{{15 * 32 + 16, 8 * 32 + 16}, {7 * 32 + 16, 3 * 32 + 16}}));
}

TEST(FindFixations, DoNotReturnToTheSurroundingsOfOneBefore) {
  Map map({32, 32}, 100);
  map.at(16, 16) = 60'000;
  map.at(16, 17) = 59'000;  // the same thing, within an eighth of the canvas
  map.at(5, 5) = 30'000;
  const std::vector<Point> fixations = find_fixations(map, {1024, 1024}, 2);
  ASSERT_EQ(fixations.size(), 2u);
  EXPECT_EQ(fixations[1], (Point{5 * 32 + 16, 5 * 32 + 16}));
}

TEST(FindFixations, AreDistinctInsideTheCanvasAndAsManyAsAskedWhileRelevanceLasts) {
  Random random(21);
  for (int i = 0; i < 2'000; ++i) {
    const Grid grid = random_grid(random, 24);
    const Size canvas = canvas_of(grid, random.range(0, 31));
    Map map(grid);
    fill_relevance(random, map);
    const int count = random.range(1, 12);
    const std::vector<Point> fixations = find_fixations(map, canvas, count);
    ASSERT_GE(fixations.size(), 1u);
    ASSERT_LE(fixations.size(), static_cast<size_t>(count));
    for (size_t a = 0; a < fixations.size(); ++a) {
      ASSERT_TRUE(fixations[a].x_px >= 0 && fixations[a].x_px < canvas.width_px);
      ASSERT_TRUE(fixations[a].y_px >= 0 && fixations[a].y_px < canvas.height_px);
      for (size_t b = 0; b < a; ++b) ASSERT_FALSE(fixations[a] == fixations[b]);
    }
    // Asking for fewer gives the first of them.
    const std::vector<Point> one = find_fixations(map, canvas, 1);
    ASSERT_EQ(one.front(), fixations.front());
  }
}

TEST(FindFixations, AFlatMapHasOneAtTheCentre) {
  for (const uint16_t value : {uint16_t{0}, uint16_t{777}})
    EXPECT_EQ(find_fixations(Map({4, 7}, value), canvas_of({4, 7}), 5),
              (std::vector<Point>{{112, 64}}));
  EXPECT_TRUE(find_fixations(Map({4, 7}, 1), canvas_of({4, 7}), 0).empty());
}

class Cortical : public testing::Test {
 protected:
  std::vector<Cell> plan(Size canvas, int budget_tokens, std::vector<Point> fixations,
                         double e0 = 0) {
    Random random(22);
    fill_scene(random, canvas, budget_tokens, owned_);
    owned_.scene.fixations = std::move(fixations);
    owned_.scene.params.cortical_e0 = e0;
    return make_plan(MakerKind::kCortical, owned_.scene)->cells;
  }
  static int level_at(const std::vector<Cell>& cells, const Point& point) {
    for (const Cell& cell : cells)
      if (static_cast<int>(point.x_px) / cell.side_px() == cell.col &&
          static_cast<int>(point.y_px) / cell.side_px() == cell.row)
        return cell.level;
    return -1;
  }

  OwnedScene owned_;
};

TEST_F(Cortical, UsesEveryLevelFromTheFixationToTheFarCorner) {
  // The level next to the top is the coarsest that can remain.
  const std::vector<Cell> cells = plan({4096, 4096}, 64, {{100, 100}});
  EXPECT_EQ(level_at(cells, {100, 100}), 0);
  EXPECT_EQ(level_at(cells, {4095, 4095}), level_count({4096, 4096}) - 2);
  for (int level = 0; level <= 6; ++level)
    EXPECT_TRUE(std::any_of(cells.begin(), cells.end(), [&](const Cell& c) {
      return c.level == level;
    })) << level;
}

TEST_F(Cortical, WithAnE0OfOneHalfLevelsSpanLittleMoreThanOne) {
  const std::vector<Cell> cells = plan({4096, 4096}, 164, {{2048, 2048}}, 0.5);
  const auto [coarse, fine] = std::minmax_element(cells.begin(), cells.end());
  EXPECT_LE(coarse->level - fine->level, 2);
}

TEST_F(Cortical, LevelsRiseWithTheDistanceFromTheFixation) {
  const std::vector<Cell> cells = plan({1024, 1024}, 96, {{512, 512}});
  for (double x = 512; x < 1023; x += 16)
    EXPECT_LE(level_at(cells, {x, 512}), level_at(cells, {x + 1, 512})) << x;
  EXPECT_EQ(level_at(cells, {512, 512}), 0);
}

TEST_F(Cortical, EachOfSeveralFixationsIsSharp) {
  const std::vector<Point> fixations = {{40, 40}, {980, 60}, {500, 900}, {33, 800}};
  const std::vector<Cell> cells = plan({1024, 1024}, 200, fixations);
  for (const Point& point : fixations) EXPECT_EQ(level_at(cells, point), 0);
  EXPECT_GT(level_at(cells, {500, 500}), 1);
}

TEST_F(Cortical, IsMirroredWhenTheFixationIs) {
  const std::vector<Cell> left = plan({1024, 1024}, 67, {{208, 304}});
  std::vector<Cell> right = plan({1024, 1024}, 67, {{1024 - 208, 304}});
  for (Cell& cell : right) cell.col = (32 >> cell.level) - 1 - cell.col;
  std::sort(right.begin(), right.end());
  // Ties go by column, so mirrored plans may differ by the last split: at most five cells of each.
  std::vector<Cell> both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                        std::back_inserter(both));
  EXPECT_GE(both.size(), left.size() - 5);
}

// The rule in words: a cell is split where the wanted level, -log2 M + bias, at its point nearest
// to a fixation is below its own. Bisection finds the least bias whose plan fits.
TEST_F(Cortical, IsThePlanOfTheBiasThatBisectionFinds) {
  Random random(23);
  for (int i = 0; i < 300; ++i) {
    const int side_cells = 1 << random.range(1, 6);  // a square: every split adds three
    const Size canvas = canvas_of({side_cells, side_cells});
    const Point fixation{random.unit() * canvas.width_px, random.unit() * canvas.height_px};
    const int budget = random.range(4, 150);
    const std::vector<Cell> cells = plan(canvas, budget, {fixation});

    const CellTree tree(canvas);
    const double longer_px = std::max(canvas.width_px, canvas.height_px);
    const double e0 = std::exp2(1 - tree.levels());
    const auto cover = [&](double bias) {
      std::vector<Cell> open = {tree.root()};
      std::vector<Cell> done;
      while (!open.empty()) {
        const Cell cell = open.back();
        open.pop_back();
        const double side = cell.side_px();
        const double x = std::clamp(fixation.x_px, cell.col * side, (cell.col + 1) * side);
        const double y = std::clamp(fixation.y_px, cell.row * side, (cell.row + 1) * side);
        const double e = std::hypot(x - fixation.x_px, y - fixation.y_px) / longer_px;
        const double wanted = -std::log2(1 / (e + e0)) + bias;
        const Children children = tree.children(cell);
        if (cell.level == 0 || wanted >= cell.level)
          done.push_back(cell);
        else
          open.insert(open.end(), children.begin(), children.end());
      }
      std::sort(done.begin(), done.end());
      return done;
    };
    double low = -1;
    double high = 40;
    for (int step = 0; step < 60; ++step) {
      const double middle = (low + high) / 2;
      (static_cast<int>(cover(middle).size()) <= budget ? high : low) = middle;
    }
    // Bisection stops where cells of one size on the cortex no longer fit all together; the plan
    // goes on with those that do, so it lies between the plans of the two biases bisection ends
    // with.
    const auto within = [](const std::vector<Cell>& fine, const std::vector<Cell>& coarse) {
      return std::all_of(fine.begin(), fine.end(), [&](const Cell& cell) {
        return std::any_of(coarse.begin(), coarse.end(), [&](const Cell& big) {
          const int up = big.level - cell.level;
          return up >= 0 && cell.row >> up == big.row && cell.col >> up == big.col;
        });
      });
    };
    ASSERT_TRUE(within(cells, cover(high))) << i;
    // 1e-9 of a level: logarithms round where the plan's divisions do not.
    ASSERT_TRUE(within(cover(low - 1e-9), cells)) << i;
  }
}

}  // namespace
}  // namespace fovea
