// SPDX-License-Identifier: Apache-2.0
#include "vision/positions.h"

#include <gtest/gtest.h>

#include <random>

#include "vision/test_towers.h"

namespace fovea {
namespace {

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Cells of every level the canvas has, those that hang over its edge among them.
std::vector<PatchPlace> all_places(Size canvas) {
  std::vector<Cell> cells;
  for (int level = 0; level < level_count(canvas); ++level)
    for (const Cell& cell : test::cover(canvas, level)) cells.push_back(cell);
  return test::places_of(cells, canvas);
}

const std::vector<Size> kCanvases = {{32, 32}, {32, 160}, {224, 96}, {64, 512}, {416, 288}};

TEST(Positions, EqualTheReferenceAtEveryLevelForTablesOfAnySize) {
  Threads threads(2);
  for (const Size canvas : kCanvases) {
    for (const int side : {1, 2, 3, 7, 20}) {
      constexpr int64_t kWidth = 5;
      const std::vector<PatchPlace> places = all_places(canvas);
      // An entry more than the square: such tables exist, and it is not read.
      const auto table = random_values((static_cast<size_t>(side) * side + 1) * kWidth, 3);
      auto x = random_values(places.size() * kWidth, 4);
      auto expected = x;
      add_positions(threads, places, canvas, table.data(), side, kWidth, x.data());
      add_positions_reference(places, canvas, table.data(), side, kWidth, expected.data());
      // A place among the entries is rounded to f32: half a bit of at most 20, times the steepest
      // slope of a table of normal values.
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(x[i], expected[i], 2e-5)
            << canvas.width_px << "x" << canvas.height_px << ", side " << side << ", index " << i;
    }
  }
}

TEST(Positions, RotaryAnglesEqualTheReference) {
  Threads threads(2);
  for (const Size canvas : kCanvases) {
    for (const int head_dim : {4, 8, 20, 64}) {
      const std::vector<PatchPlace> places = all_places(canvas);
      const RotaryAngles angles = rotary_angles(threads, places, head_dim, 10'000);
      const RotaryAngles expected = rotary_angles_reference(places, head_dim, 10'000);
      ASSERT_EQ(angles.cos.size(), places.size() * static_cast<size_t>(head_dim / 2));
      // Angles are f32 and at most 31 here: half a bit of that, and as much of the frequency.
      for (size_t i = 0; i < expected.cos.size(); ++i) {
        ASSERT_NEAR(angles.cos[i], expected.cos[i], 4e-6) << head_dim << ", index " << i;
        ASSERT_NEAR(angles.sin[i], expected.sin[i], 4e-6) << head_dim << ", index " << i;
      }
    }
  }
}

TEST(Positions, TheWeightsOfAPlaceAddUpToOne) {
  for (const Size canvas : kCanvases)
    for (const int side : {1, 2, 3, 7, 48})
      for (const PatchPlace& place : all_places(canvas)) {
        float sum = 0;
        const PositionTaps taps = position_taps(place, canvas, side);
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_TRUE(taps.index[i] >= 0 && taps.index[i] < side * side);
          sum += taps.weight[i];
        }
        EXPECT_NEAR(sum, 1, 4e-7);  // four products of f32
      }
}

TEST(Positions, ThoseOfACoarsePatchAreTheMeanOfThePatchesItCovers) {
  constexpr Size kCanvas{256, 128};
  constexpr int kSide = 6;
  Threads threads(1);
  // Entries that are a linear function of their place, for which reading between them is exact.
  std::vector<float> table;
  for (int row = 0; row < kSide; ++row)
    for (int col = 0; col < kSide; ++col)
      table.push_back(static_cast<float>(row) * 3 - static_cast<float>(col) * 0.7f + 1);
  for (const int level : {1, 2}) {
    const int span = 1 << level;
    for (int row = 0; row < 8 / span; ++row) {
      for (int col = 0; col < 16 / span; ++col) {
        std::vector<PatchPlace> places = {
            {place_at(row, level, 8), place_at(col, level, 16), level}};
        for (int i = 0; i < span * span; ++i)
          places.push_back(
              {place_at(row * span + i / span, 0, 8), place_at(col * span + i % span, 0, 16), 0});
        std::vector<float> x(places.size(), 0);
        add_positions(threads, places, kCanvas, table.data(), kSide, 1, x.data());
        double mean = 0;
        double mean_row = 0;
        double mean_col = 0;
        for (size_t i = 1; i < places.size(); ++i) {
          mean += x[i];
          mean_row += places[i].row;
          mean_col += places[i].col;
        }
        EXPECT_NEAR(x[0], mean / (span * span), 1e-5);  // f32 sums of values up to 16
        EXPECT_EQ(places[0].row, mean_row / (span * span));
        EXPECT_EQ(places[0].col, mean_col / (span * span));
      }
    }
  }
}

}  // namespace
}  // namespace fovea
