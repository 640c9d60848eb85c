// SPDX-License-Identifier: Apache-2.0
// Every plan maker of the registry against its reference and against what all plans must hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>

#include "gaze/gaze.h"
#include "gaze/test_plan_checks.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

// ThreadSanitizer makes the loop fifteen times slower, and a plan maker has no threads.
#if defined(__SANITIZE_THREAD__)
constexpr int kMaps = 10'000;
#else
constexpr int kMaps = 100'000;
#endif

std::string describe(const Scene& scene) {
  std::ostringstream text;
  text << scene.canvas.width_px << "x" << scene.canvas.height_px << " budget "
       << scene.budget_tokens << " fixations " << scene.fixations.size();
  return text.str();
}

class EveryMaker : public testing::TestWithParam<PlanMaker> {
 protected:
  // A scene for this maker; now and then without a budget where it may be.
  static void next_scene(Random& random, Grid grid, OwnedScene& owned) {
    fill_random_scene(random, grid, owned);
    if (GetParam().without_budget && random.one_in(8)) owned.scene.budget_tokens = 0;
  }
};

TEST_P(EveryMaker, HoldsBudgetOrderAndCoverOnAHundredThousandRandomMaps) {
  Random random(1);
  OwnedScene owned;
  for (int i = 0; i < kMaps; ++i) {
    next_scene(random, random_grid(random, i % 50 == 0 ? 100 : 24), owned);
    const Result<Plan> plan = make_plan(GetParam().kind, owned.scene);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan_fault(GetParam(), owned.scene, *plan), "")
        << "map " << i << " " << describe(owned.scene);
    if (i % 8 != 0) continue;
    const Result<Plan> again = make_plan(GetParam().kind, owned.scene);
    ASSERT_EQ(plan->cells, again->cells) << "map " << i << " " << describe(owned.scene);
  }
}

TEST_P(EveryMaker, EqualsItsReferenceOnThreeThousandRandomMaps) {
  Random random(2);
  OwnedScene owned;
  for (int i = 0; i < 3'000; ++i) {
    // Proportional has more than one region from 256 cells and tokens on.
    const Grid grid =
        i % 10 == 0 ? Grid{random.range(8, 32), random.range(8, 32)} : random_grid(random, 14);
    next_scene(random, grid, owned);
    const Result<Plan> plan = make_plan(GetParam().kind, owned.scene);
    ASSERT_TRUE(plan) << plan.error().message;
    std::vector<Cell> expected = GetParam().reference(owned.scene);
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(plan->cells, expected) << "map " << i << " " << describe(owned.scene);
  }
}

TEST_P(EveryMaker, HoldsOnA13000PxCanvasForBudgetsFromOneToAllCells) {
  Random random(3);
  OwnedScene owned;
  for (const int budget : {1, 2, 68, 96, 4'096, 16'384, 164'836, INT32_MAX}) {
    fill_scene(random, canvas_of({406, 406}), budget, owned);
    const Result<Plan> plan = make_plan(GetParam().kind, owned.scene);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan_fault(GetParam(), owned.scene, *plan), "") << describe(owned.scene);
  }
}

TEST_P(EveryMaker, ReadsOneCellWhereTheCanvasIsOne) {
  Random random(4);
  OwnedScene owned;
  for (const int budget : {1, 2, 96}) {
    fill_scene(random, canvas_of({1, 1}), budget, owned);
    const Result<Plan> plan = make_plan(GetParam().kind, owned.scene);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->cells, (std::vector<Cell>{{0, 0, 0}}));
  }
}

TEST_P(EveryMaker, ReadsTheWholeCanvasAtLevel0WhenTheBudgetHasRoomForAll) {
  Random random(5);
  OwnedScene owned;
  fill_scene(random, canvas_of({9, 13}), 1'000, owned);
  const Result<Plan> plan = make_plan(GetParam().kind, owned.scene);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->cells, CellTree(owned.scene.canvas).cells_of(0));
}

// The cells of 300 plans as one number. It changes with a maker's rule or defaults and with nothing
// else: not with the compiler, its optimisation or the machine.
TEST_P(EveryMaker, GivesTheSamePlansOnEveryMachine) {
  const std::map<std::string, uint64_t> expected = {
      {"uniform", 0x01f122cdc9d3ea35},     {"cortical", 0x0617fd296a8b49fa},
      {"thresholds", 0x587af9f2ba6443fd},  {"proportional", 0xfeb1047580a96861},
      {"quadtree", 0xa61c9ebe77f7b73f},    {"top-k", 0x3116102aa8730e5f},
      {"glance+look", 0xc818b602edc2d6f3},
  };
  Random random(6);
  OwnedScene owned;
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (int i = 0; i < 300; ++i) {
    next_scene(random, {random.range(1, 40), random.range(1, 40)}, owned);
    const Result<Plan> plan = make_plan(GetParam().kind, owned.scene);
    for (const Cell& cell : plan->cells)
      for (const int part : {cell.level, cell.row, cell.col})
        hash = (hash ^ static_cast<uint64_t>(part)) * 0x100000001b3;
  }
  EXPECT_EQ(hash, expected.at(std::string(GetParam().name())));
}

INSTANTIATE_TEST_SUITE_P(Gaze, EveryMaker,
                         testing::ValuesIn(plan_makers().begin(), plan_makers().end()),
                         [](const auto& maker) {
                           std::string name(maker.param.name());
                           std::erase_if(name, [](char c) { return c == '-' || c == '+'; });
                           return name;
                         });

}  // namespace

void PrintTo(const PlanMaker& maker, std::ostream* out) { *out << maker.name(); }
void PrintTo(const Cell& cell, std::ostream* out) {
  *out << "(" << cell.level << "," << cell.row << "," << cell.col << ")";
}

}  // namespace fovea
