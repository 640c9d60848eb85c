// SPDX-License-Identifier: Apache-2.0
#include "language/positions.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Positions, TextCountsUpFromItsStart) {
  const PromptPositions positions = prompt_positions(3, {}, 7);
  EXPECT_EQ(positions.tokens, (std::vector<TokenPosition>{{7, 7, 7}, {8, 8, 8}, {9, 9, 9}}));
  EXPECT_EQ(positions.next, 10);
  EXPECT_EQ(prompt_positions(0, {}, 2.5f).next, 2.5f);
}

// A 3x5 canvas of cells: level 1 is 2x3, its last row and column hang over; level 3 is one cell.
TEST(Positions, MixedCellsStandAtTheirCentres) {
  const std::vector<Cell> cells = {{3, 0, 0}, {1, 0, 0}, {1, 1, 2}, {0, 2, 4}, {0, 0, 1}};
  const ImageSpan image{2, cells, {3, 5}};
  const PromptPositions positions = prompt_positions(8, {&image, 1});
  const std::vector<TokenPosition> expected = {
      {0, 0, 0},
      {1, 1, 1},
      {2, 2 + 2, 2 + 3.5f},  // centre at 3.5 in both, clamped to the last row
      {2, 2 + 0.5f, 2 + 0.5f},
      {2, 2 + 2, 2 + 4},  // 2.5 and 4.5, clamped
      {2, 2 + 2, 2 + 4},
      {2, 2, 2 + 1},
      {7, 7, 7}};  // after the longer side of the whole grid
  EXPECT_EQ(positions.tokens, expected);
  EXPECT_EQ(positions.next, 8);
}

TEST(Positions, WhatFollowsAnImageDoesNotDependOnItsPlan) {
  const std::vector<Cell> one = {{2, 0, 0}};
  std::vector<Cell> all(12);
  for (int i = 0; i < 12; ++i) all[static_cast<size_t>(i)] = {0, i / 3, i % 3};
  for (const auto& cells : {one, all}) {
    const std::vector<ImageSpan> images = {{1, cells, {4, 3}}, {1 + cells.size(), one, {2, 6}}};
    const PromptPositions positions = prompt_positions(cells.size() + 4, images);
    EXPECT_EQ(positions.tokens[1 + cells.size()].time, 5) << "the second image follows at once";
    EXPECT_EQ(positions.tokens[2 + cells.size()], text_position(11));
    EXPECT_EQ(positions.next, 13);
  }
}

TEST(Positions, AnImageWithoutCellsTakesItsPlaceAllTheSame) {
  const ImageSpan image{0, {}, {2, 3}};
  EXPECT_EQ(prompt_positions(1, {&image, 1}).tokens.front(), text_position(3));
}

}  // namespace
}  // namespace fovea
