// SPDX-License-Identifier: Apache-2.0
#include "eval/arms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "eval/random.h"
#include "gaze/cell_tree.h"
#include "gaze/gaze.h"

namespace fovea::eval {
namespace {

const Size kCanvases[] = {{1024, 1024}, {32, 32}, {64, 32},   {992, 672},
                          {160, 1984},  {96, 96}, {2048, 512}};

// The plan that the engine makes of coupling alone.
Plan plan_of(const Map& map, Size canvas, int budget) {
  Scene scene;
  scene.canvas = canvas;
  scene.relevance = &map;
  scene.budget_tokens = budget;
  scene.params.neighbour_bonus = scene.params.crowding = 0;
  auto plan = make_plan(MakerKind::kGlanceLook, scene);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : Plan{};
}

std::vector<Cell> fine_cells(const Plan& plan) {
  std::vector<Cell> cells;
  for (const Cell& cell : plan.cells)
    if (cell.level == 0) cells.push_back(cell);
  return cells;
}

Box random_box(Size canvas, Random& random) {
  const double x = static_cast<double>(random.below(canvas.width_px));
  const double y = static_cast<double>(random.below(canvas.height_px));
  return {x, y, std::min<double>(canvas.width_px, x + 1.0 + random.below(40)),
          std::min<double>(canvas.height_px, y + 1.0 + random.below(16))};
}

TEST(Arms, MapsHaveAScoreForEachFineCell) {
  for (const Size canvas : kCanvases) {
    Random random(3);
    const std::vector<Box> evidence{random_box(canvas, random), random_box(canvas, random)};
    for (const Map& map :
         {random_map(canvas, 3), oracle_map(canvas, evidence, 3), oracle_map(canvas, {}, 3)}) {
      EXPECT_EQ(map.grid, grid_at(canvas, 0));
      EXPECT_EQ(map.score.size(), static_cast<size_t>(map.grid.cells()));
    }
    Map sorted = random_map(canvas, 3);
    std::sort(sorted.score.begin(), sorted.score.end());
    EXPECT_EQ(std::adjacent_find(sorted.score.begin(), sorted.score.end()), sorted.score.end());
    EXPECT_EQ(sorted.score.back(), 65535);
  }
}

TEST(Arms, TheOracleCoversTheEvidenceWithinTheBudget) {
  Random random(11);
  const Size canvas{1024, 1024};
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<Box> evidence{random_box(canvas, random), random_box(canvas, random)};
    const Plan plan = plan_of(oracle_map(canvas, evidence, 1), canvas, 96);
    EXPECT_EQ(plan.tokens(), 96);
    EXPECT_EQ(share_covered(plan.cells, evidence), 1);
  }
}

TEST(Arms, TheOraclesCropsCoverTheEvidence) {
  Random random(12);
  const Size canvas{1024, 1024};
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<Box> evidence{random_box(canvas, random), random_box(canvas, random)};
    const Map map = oracle_map(canvas, evidence, 1);
    Scene scene;
    scene.canvas = canvas;
    scene.relevance = &map;
    std::vector<Cell> cells;
    for (const CellBlock& crop : make_crops(scene, 32, {}))
      for (int row = crop.row_begin; row < crop.row_end; ++row)
        for (int col = crop.col_begin; col < crop.col_end; ++col) cells.push_back({0, row, col});
    EXPECT_LE(cells.size(), 32u);
    EXPECT_EQ(share_covered(cells, evidence), 1) << "trial " << trial;
  }
}

TEST(Arms, WhereTheBudgetIsShortTheOracleTakesMostOfTheEvidence) {
  // 2 x 1 cells of 32 px and a sliver of a third; beside a glance of 4 there is room for two.
  const std::vector<Box> evidence{{64, 64, 130, 90}};
  const Plan plan = plan_of(oracle_map({1024, 1024}, evidence, 1), {1024, 1024}, 6);
  ASSERT_EQ(fine_cells(plan).size(), 2u);
  EXPECT_NEAR(share_covered(plan.cells, evidence), 64.0 / 66.0, 1e-12);
}

TEST(Arms, RandomLooksDifferBySeedAndHoldTheSmallerBudgets) {
  const Size canvas{1024, 1024};
  const auto look = [&](uint64_t seed, int budget) {
    return fine_cells(plan_of(random_map(canvas, seed), canvas, budget));
  };
  EXPECT_NE(look(1, 96), look(2, 96));
  EXPECT_EQ(look(1, 96), look(1, 96));
  const std::vector<Cell> small = look(1, 96);
  const std::vector<Cell> large = look(1, 144);
  EXPECT_EQ(small.size(), 32u);
  EXPECT_EQ(large.size(), 80u);
  EXPECT_TRUE(std::includes(large.begin(), large.end(), small.begin(), small.end()));
}

TEST(Arms, EveryCellIsEquallyLikelyAtRandom) {
  const Size canvas{256, 256};  // 64 fine cells; budget 7: a glance of 4, a look of 3
  std::vector<int> drawn(64);
  constexpr int kTrials = 6400;
  for (int seed = 0; seed < kTrials; ++seed)
    for (const Cell& cell :
         fine_cells(plan_of(random_map(canvas, static_cast<uint64_t>(seed)), canvas, 7)))
      ++drawn[static_cast<size_t>(cell.row) * 8 + cell.col];
  // 300 expected, standard deviation 17: six of them.
  for (const int count : drawn) EXPECT_NEAR(count, 300, 104);
}

TEST(ShareCovered, CountsPixelsInFineCellsAlone) {
  const std::vector<Box> box{{16, 0, 48, 32}};  // half in cell 0, half in cell 1
  EXPECT_EQ(share_covered(std::vector<Cell>{{0, 0, 0}, {0, 0, 1}}, box), 1);
  EXPECT_DOUBLE_EQ(share_covered(std::vector<Cell>{{0, 0, 0}}, box), 0.5);
  EXPECT_EQ(share_covered(std::vector<Cell>{{1, 0, 0}}, box), 0);
  EXPECT_EQ(share_covered(std::vector<Cell>{}, box), 0);
  EXPECT_EQ(share_covered(std::vector<Cell>{{0, 0, 0}}, {{0, 0, 32, 32}}), 1);
}

TEST(BoxesOnCanvas, AreScaledAndClipped) {
  const auto boxes =
      boxes_on_canvas({{10, 20, 30, 40}, {-5, -5, 4, 4}, {200, 0, 300, 10}}, {100, 50}, {200, 150});
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0], (Box{20, 60, 60, 120}));
  EXPECT_EQ(boxes[1], (Box{0, 0, 8, 12}));
}

TEST(Settings, FullStandsOnceAndNothingTwice) {
  const auto settings = settings_of({"full", "random", "full", "random"}, {64, 96, 64});
  const std::vector<Setting> expected{{"full", 0}, {"random", 64}, {"random", 96}};
  EXPECT_EQ(settings, expected);
}

TEST(ChooseArm, EveryArmChangesWhatTheEngineIsTold) {
  ArmScene scene{{500, 500}, {512, 512}, {{100, 100, 120, 112}}, 5};
  for (const ArmKind& kind : arm_kinds()) {
    AskOptions options;
    choose_arm({kind.name, std::string(kind.name) == "full" ? 0 : 96}, scene, options);
    const std::string arm = kind.name;
    const bool forgets = arm.starts_with("forget-");
    const bool all = arm == "full" || forgets;
    const bool maker = arm == "thresholds" || arm == "proportional";
    const bool blind = all || arm == "uniform" || maker;
    EXPECT_EQ(options.plan, maker ? arm : blind ? "uniform" : "glance+look");
    EXPECT_EQ(options.budget_tokens, all ? -1 : 96);
    EXPECT_EQ(options.keep, forgets ? 96.0 / 256 : 1);
    EXPECT_EQ(options.relook > 0, arm == "relook");
    EXPECT_EQ(options.forget, forgets ? arm.substr(7) : "");
    EXPECT_EQ(options.coupling.size(), arm == "random" || arm == "centre" || arm == "oracle");
    EXPECT_EQ(options.balance.empty(), blind);
  }
}

}  // namespace
}  // namespace fovea::eval
