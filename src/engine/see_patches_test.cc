// SPDX-License-Identifier: Apache-2.0
// python/tests/test_look.py compares every plan maker's patches with plain numpy.
#include "engine/see_patches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/given_plan.h"
#include "pyramid/pyramid.h"

namespace fovea {
namespace {

Image noise(Size size) {
  Image image(size);
  uint32_t state = 1;
  for (uint8_t& value : image.rgb) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint8_t>(state >> 24);
  }
  return image;
}

void expect_sampled(const SeenPatches& seen, const Image& canvas) {
  Threads threads(1);
  const Patches expected =
      sample_patches_reference(build_pyramid(threads, canvas), seen.plan, PatchFormat::kFloat32);
  ASSERT_EQ(seen.patches.count, expected.count);
  EXPECT_EQ(seen.patches.places, expected.places);
  EXPECT_TRUE(std::equal(expected.f32.begin(), expected.f32.end(), seen.patches.f32.begin()));
}

TEST(SeePatches, AreThoseOfThePlanForEveryMaker) {
  const Image image = noise({320, 256});
  for (const PlanKind& kind : plan_kinds()) {
    const SeeOptions options{.plan = kind.name, .budget_tokens = 24};
    const auto seen = see_patches(image, options, nullptr, true);
    ASSERT_TRUE(seen) << kind.name << ": " << seen.error().message;
    const auto sight = see(image, options);
    ASSERT_TRUE(sight);
    EXPECT_EQ(seen->plan.cells, sight->plan.cells) << kind.name;
    EXPECT_EQ(static_cast<int64_t>(seen->patches.bytes()), sight->patch_bytes);
    expect_sampled(*seen, image);
    EXPECT_EQ(see_patches(image, options, nullptr, false)->patches.count, 0);
  }
}

TEST(SeeCrops, StandBehindTheGlanceAndKeepToTheBudget) {
  const Image image = noise({640, 480});
  for (const int budget : {8, 24, 96}) {
    const auto seen = see_crops(image, {.budget_tokens = budget});
    ASSERT_TRUE(seen) << seen.error().message;
    EXPECT_LE(seen->plan.tokens(), budget);
    const std::vector<Cell>& cells = seen->plan.cells;
    const auto glance = see(image, {.plan = "glance+look", .budget_tokens = budget});
    ASSERT_TRUE(glance);
    ASSERT_LT(seen->glance_tokens, seen->plan.tokens());
    for (int i = 0; i < seen->glance_tokens; ++i) {
      EXPECT_EQ(cells[i], glance->plan.cells[i]);
      EXPECT_GT(cells[i].level, 0);
    }
    auto at = static_cast<size_t>(seen->glance_tokens);
    for (const Area& crop : seen->crops)
      for (int y = 0; y < crop.size.height_px; y += kCellPx)
        for (int x = 0; x < crop.size.width_px; x += kCellPx, ++at)
          EXPECT_EQ(cells.at(at), (Cell{0, (crop.y_px + y) / kCellPx, (crop.x_px + x) / kCellPx}));
    EXPECT_EQ(at, cells.size());
  }
  EXPECT_FALSE(see_crops(image, {.budget_tokens = 0}));
}

TEST(SeeCrops, AreNoneWhereTheGlanceIsLevel0) {
  const auto seen = see_crops(noise({256, 256}), {.budget_tokens = 96});
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->plan.tokens(), 64);
  EXPECT_EQ(seen->glance_tokens, 64);
  EXPECT_TRUE(seen->crops.empty());
}

TEST(SeePatches, EveryCellNeedsNoLookAtThePixels) {
  const Image image = noise({320, 256});
  const auto seen = see_patches(image, {.plan = "uniform"}, nullptr, true);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->plan.tokens(), 80);
  EXPECT_EQ(seen->plan.cells, see(image, {.plan = "uniform"})->plan.cells);
  expect_sampled(*seen, image);
}

TEST(SeePatches, APlanOfOnesOwnIsPutInOrder) {
  const Image image = noise({320, 256});
  GivenPlan given;
  given.cells = {{0, 2, 3}, {2, 0, 1}, {1, 1, 1}};
  const auto seen = see_patches(image, {}, &given, true);
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(seen->plan.cells, (std::vector<Cell>{{2, 0, 1}, {1, 1, 1}, {0, 2, 3}}));
  expect_sampled(*seen, image);
}

TEST(SeePatches, OneThatCannotBeIsRefused) {
  const Size canvas{320, 256};
  const auto refused = [&](std::vector<Cell> cells, int budget_tokens, Size made_for = {}) {
    GivenPlan given;
    given.cells = std::move(cells);
    given.canvas = made_for;
    const auto settled = settle_plan(given, canvas, budget_tokens);
    return settled ? "" : settled.error().message;
  };
  EXPECT_EQ(refused({{0, 0, 0}}, 1, canvas), "");
  EXPECT_NE(refused({}, -1).find("no cells"), std::string::npos);
  EXPECT_NE(refused({{0, 0, 0}, {0, 0, 0}}, -1).find("twice"), std::string::npos);
  EXPECT_NE(refused({{0, 8, 0}}, -1).find("not on the canvas"), std::string::npos);
  EXPECT_NE(refused({{40, 0, 0}}, -1).find("not on the canvas"), std::string::npos);
  EXPECT_NE(refused({{0, 0, 0}, {0, 0, 1}}, 1).find("budget"), std::string::npos);
  EXPECT_NE(refused({{0, 0, 0}}, -1, {64, 64}).find("made for a canvas"), std::string::npos);
  EXPECT_FALSE(see_patches(Image(), {}, nullptr, true));
  EXPECT_FALSE(see_patches(noise({64, 64}), {.plan = "spiral"}, nullptr, true));
}

}  // namespace
}  // namespace fovea
