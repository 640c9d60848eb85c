// SPDX-License-Identifier: Apache-2.0
// make_plan: what it refuses, and the plans of a square canvas that DESIGN's figures name.
#include "gaze/gaze.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "gaze/cell_tree.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

class MakePlanOnASquare : public testing::Test {
 protected:
  MakePlanOnASquare() {
    Random random(11);
    fill_scene(random, {1024, 1024}, kDefaultBudgetTokens, owned_);
    for (uint16_t& score : owned_.relevance.score) score = static_cast<uint16_t>(random.next());
  }

  Plan plan(std::string_view maker, int budget_tokens) {
    scene().budget_tokens = budget_tokens;
    Result<Plan> made = make_named(maker);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::string refusal(std::string_view maker) {
    const Result<Plan> made = make_named(maker);
    EXPECT_FALSE(made);
    if (made) return "";
    EXPECT_EQ(made.error().kind, Error::Kind::kBadInput);
    EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
    return made.error().message;
  }
  Result<Plan> make_named(std::string_view maker) {
    const auto kind = find_maker(maker);
    if (!kind) return kind.error();
    return make_plan(*kind, scene());
  }
  Scene& scene() { return owned_.scene; }

  OwnedScene owned_;
};

TEST_F(MakePlanOnASquare, ExactCoversStopAt67Of68And94Of96) {
  for (const char* maker : {"cortical", "thresholds", "quadtree"}) {
    EXPECT_EQ(plan(maker, 68).tokens(), 67) << maker;
    EXPECT_EQ(plan(maker, 96).tokens(), 94) << maker;
  }
}

TEST_F(MakePlanOnASquare, TheOthersFillTheBudget) {
  for (const char* maker : {"proportional", "top-k", "glance+look"}) {
    EXPECT_EQ(plan(maker, 68).tokens(), 68) << maker;
    EXPECT_EQ(plan(maker, 96).tokens(), 96) << maker;
    EXPECT_EQ(plan(maker, 1024).tokens(), 1024) << maker;
  }
}

TEST_F(MakePlanOnASquare, UniformTakesTheFinestLevelThatFits) {
  EXPECT_EQ(plan("uniform", 0).tokens(), 1024);
  EXPECT_EQ(plan("uniform", 1024).tokens(), 1024);
  EXPECT_EQ(plan("uniform", 1023).tokens(), 256);
  EXPECT_EQ(plan("uniform", 96).tokens(), 64);
  EXPECT_EQ(plan("uniform", 3).tokens(), 1);
}

TEST_F(MakePlanOnASquare, TheGlanceOf96TokensIs64CellsOfLevel2AndTheLook32OfLevel0) {
  const Plan made = plan("glance+look", 96);
  int per_level[6] = {};
  for (const Cell& cell : made.cells) ++per_level[cell.level];
  EXPECT_EQ(per_level[2], 64);
  EXPECT_EQ(per_level[0], 32);
}

TEST_F(MakePlanOnASquare, QuadtreeReadsNothingCoarserThanTheGlanceUnlessItStartsAtTheRoot) {
  EXPECT_EQ(plan("quadtree", 96).cells.front().level, 2);
  for (int row = 0; row < 32; ++row)
    for (int col = 0; col < 16; ++col) owned_.relevance.at(row, col) = 0;  // a dull half
  EXPECT_LE(plan("quadtree", 96).cells.front().level, 2);
  scene().params.quadtree_from_root = true;
  EXPECT_EQ(plan("quadtree", 96).cells.front().level, 4);
}

TEST_F(MakePlanOnASquare, ABudgetOfOneReadsTheWholeCanvasInOneCell) {
  for (const PlanMaker& maker : plan_makers()) {
    if (!maker.covers) continue;
    EXPECT_EQ(plan(maker.name(), 1).cells, (std::vector<Cell>{{5, 0, 0}})) << maker.name();
  }
}

TEST_F(MakePlanOnASquare, MakersThatNeedNoRelevanceOrDetailTakeASceneWithoutThem) {
  for (const PlanMaker& maker : plan_makers()) {
    const Plan with = plan(maker.name(), 96);
    if (!maker.needs_detail) scene().detail = nullptr;
    if (!maker.needs_relevance) scene().relevance = nullptr;
    EXPECT_EQ(plan(maker.name(), 96).cells, with.cells) << maker.name();
    scene().detail = &owned_.detail;
    scene().relevance = &owned_.relevance;
  }
}

TEST_F(MakePlanOnASquare, AnUnknownMakerIsRefusedWithTheNamesOfAll) {
  for (const char* name : {"", "quad", "Quadtree", "glance"}) {
    const std::string message = refusal(name);
    EXPECT_NE(message.find("\"" + std::string(name) + "\""), std::string::npos) << message;
    EXPECT_NE(
        message.find("uniform, cortical, thresholds, proportional, quadtree, top-k, glance+look"),
        std::string::npos)
        << message;
  }
}

TEST_F(MakePlanOnASquare, ABudgetBelowOneIsRefusedExceptZeroForMakersWithoutABudget) {
  for (const PlanMaker& maker : plan_makers()) {
    for (const int budget : {-1, std::numeric_limits<int>::min()}) {
      scene().budget_tokens = budget;
      EXPECT_NE(refusal(maker.name()).find(std::to_string(budget)), std::string::npos);
    }
    scene().budget_tokens = 0;
    const Result<Plan> made = make_plan(maker.kind, scene());
    EXPECT_EQ(static_cast<bool>(made), maker.without_budget) << maker.name();
  }
}

TEST_F(MakePlanOnASquare, AFixationOutsideTheCanvasIsRefusedNamingThePointAndTheSize) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Point& point : {Point{1024, 5}, Point{5, 1024}, Point{-0.5, 5}, Point{5, -1},
                             Point{nan, 5}, Point{5, nan}, Point{infinity, 5}}) {
    scene().fixations = {{512, 512}, point};
    const std::string message = refusal("cortical");
    EXPECT_NE(message.find("1024x1024"), std::string::npos) << message;
    EXPECT_NE(message.find(std::isnan(point.x_px) ? "(nan, 5)" : ""), std::string::npos) << message;
  }
  scene().fixations = {{-3, 7.5}};
  EXPECT_NE(refusal("cortical").find("(-3, 7.5)"), std::string::npos);
  scene().fixations = {{0, 0}, {1023.9, 1023.9}};
  EXPECT_TRUE(make_plan(MakerKind::kCortical, scene()));
}

TEST_F(MakePlanOnASquare, ParametersOutOfRangeAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [&](auto change) {
    scene().params = {};
    change(scene().params);
    return !refusal("quadtree").empty();
  };
  EXPECT_TRUE(refused([](GazeParams& p) { p.fixation_count = 0; }));
  EXPECT_TRUE(refused([](GazeParams& p) { p.cortical_e0 = -0.1; }));
  EXPECT_TRUE(refused([&](GazeParams& p) { p.cortical_e0 = nan; }));
  EXPECT_TRUE(refused([](GazeParams& p) { p.thresholds = {0.5, 0.8, 0.2}; }));
  EXPECT_TRUE(refused([](GazeParams& p) { p.thresholds = {1.5, 0.8, 0.2}; }));
  EXPECT_TRUE(refused([&](GazeParams& p) { p.thresholds = {0.8, nan, 0.2}; }));
  EXPECT_TRUE(refused([](GazeParams& p) { p.temperature = 0; }));
  EXPECT_TRUE(refused([&](GazeParams& p) { p.temperature = nan; }));
  EXPECT_TRUE(refused([](GazeParams& p) { p.neighbour_bonus = -1; }));
  EXPECT_TRUE(refused([&](GazeParams& p) { p.crowding = nan; }));
}

TEST(MakePlanDeath, ASceneWhoseMapsDoNotFitItsCanvasIsAProgrammersMistake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Random random(12);
  OwnedScene owned;
  fill_scene(random, {256, 128}, 8, owned);
  owned.scene.canvas = {512, 128};
  EXPECT_DEATH((void)make_plan(MakerKind::kTopK, owned.scene), "check failed");
}

TEST(CellTreeTest, ChildrenOutsideTheCanvasDoNotExist) {
  const CellTree tree(canvas_of({3, 5}));
  EXPECT_EQ(tree.levels(), 4);
  EXPECT_EQ(tree.children({1, 1, 2}).count, 1);
  EXPECT_EQ(tree.children({1, 0, 2}).count, 2);
  EXPECT_EQ(tree.children({1, 0, 0}).count, 4);
  EXPECT_EQ(tree.children({0, 0, 0}).count, 0);
  EXPECT_EQ(tree.block({3, 0, 0}).cells(), 15);
}

TEST(CellTreeTest, TheGlanceTakesAtMostTwoThirdsOfTheBudget) {
  const CellTree tree({1024, 1024});
  EXPECT_EQ(tree.glance_level(96), 2);
  EXPECT_EQ(tree.glance_level(95), 3);
  EXPECT_EQ(tree.glance_level(68), 3);
  EXPECT_EQ(tree.glance_level(1536), 0);
  EXPECT_EQ(tree.glance_level(1535), 1);
  EXPECT_EQ(tree.glance_level(1), 5);
  EXPECT_EQ(tree.glance_level(std::numeric_limits<int>::max()), 0);
}

}  // namespace
}  // namespace fovea
