// SPDX-License-Identifier: Apache-2.0
#include "relevance/detail.h"

#include <gtest/gtest.h>

#include <cmath>

#include "relevance/detail_cpu.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

// The squared error between the canvas and level `cell.level` drawn at its size, within the cell.
uint64_t true_error(const Pyramid& pyramid, const Cell& cell) {
  const LevelView fine = pyramid.level(0);
  const LevelView coarse = pyramid.level(cell.level);
  uint64_t sum = 0;
  const int side_px = cell.side_px();
  for (int y = cell.row * side_px; y < std::min((cell.row + 1) * side_px, fine.size.height_px);
       ++y) {
    for (int x = cell.col * side_px; x < std::min((cell.col + 1) * side_px, fine.size.width_px);
         ++x) {
      for (int c = 0; c < 3; ++c) {
        const int step =
            fine.row(y)[3 * x + c] - coarse.row(y >> cell.level)[3 * (x >> cell.level) + c];
        sum += static_cast<uint64_t>(step * step);
      }
    }
  }
  return sum;
}

uint64_t pixels_of(Size canvas, const Cell& cell) {
  const int side_px = cell.side_px();
  const auto width = std::min(side_px, canvas.width_px - cell.col * side_px);
  const auto height = std::min(side_px, canvas.height_px - cell.row * side_px);
  return static_cast<uint64_t>(width) * static_cast<uint64_t>(height);
}

template <class Visit>
void for_each_cell(const Detail& detail, const Visit& visit) {
  for (size_t level = 0; level < detail.grid.size(); ++level)
    for (int row = 0; row < detail.grid[level].rows; ++row)
      for (int col = 0; col < detail.grid[level].cols; ++col)
        visit(Cell{static_cast<int>(level), row, col});
}

TEST(Detail, EqualsTheReferenceForAnySize) {
  Threads threads(2);
  uint32_t seed = 1;
  for (const Size size : odd_sizes()) {
    for (const bool noise : {false, true}) {
      const Pyramid pyramid =
          build_pyramid(threads, noise ? noise_image(size, seed) : scene_image(size, seed));
      const Detail fast = measure_detail(threads, pyramid);
      const Detail plain = measure_detail_reference(pyramid);
      EXPECT_EQ(fast.grid, plain.grid);
      EXPECT_EQ(fast.lost, plain.lost) << size.width_px << "x" << size.height_px;
    }
    ++seed;
  }
}

TEST(Detail, ARowOfAnyLengthAndTheLargestStepsSumExactly) {
  for (int count = 1; count <= 2 * kCellPx; ++count) {
    const std::vector<uint8_t> children(static_cast<size_t>(3 * count), 255);
    const std::vector<uint8_t> parents(static_cast<size_t>(3 * ((count + 1) / 2)), 0);
    EXPECT_EQ(lost_in_row(children.data(), parents.data(), count), uint64_t{65025} * 3 * count);
  }
}

TEST(Detail, IsTheSquaredErrorOfReadingCoarserWithinRounding) {
  Threads threads(2);
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    // Sides that every level halves evenly, so that only rounding parts the two.
    const Size canvas = seed % 2 == 0 ? Size{256, 128} : Size{512, 512};
    const Pyramid pyramid =
        build_pyramid(threads, seed < 3 ? scene_image(canvas, seed) : noise_image(canvas, seed));
    const Detail detail = measure_detail(threads, pyramid);
    for_each_cell(detail, [&](const Cell& cell) {
      const auto exact = static_cast<double>(true_error(pyramid, cell));
      // Let d_k be level k-1 minus level k, both drawn at the canvas' size over the cell's n
      // values. The sum over a parent's children of d_j is its rounding, at most 1/2 a value, and
      // d_k is constant there for k > j, so |<d_j, d_k>| <= sqrt(n)/2 |d_k|. Summed over all pairs
      // the two differ by at most sqrt(n) (l-1) sqrt(l * lost): nothing at all at level 1.
      const double values = 3.0 * static_cast<double>(pixels_of(canvas, cell));
      const auto lost = static_cast<double>(detail.at(cell));
      const double slack = std::sqrt(values * cell.level * lost) * std::max(0, cell.level - 1);
      EXPECT_NEAR(lost, exact, slack)
          << "level " << cell.level << " row " << cell.row << " col " << cell.col;
    });
  }
}

TEST(Detail, OnPhotographLikePicturesIsWithinOnePercentOfTheSquaredError) {
  Threads threads(2);
  const Pyramid pyramid = build_pyramid(threads, scene_image({512, 256}, 11));
  const Detail detail = measure_detail(threads, pyramid);
  for_each_cell(detail, [&](const Cell& cell) {
    const auto exact = static_cast<double>(true_error(pyramid, cell));
    // Rounding offsets are spread over both signs, so their cross terms cancel far below the bound.
    if (exact > 1e6) {
      EXPECT_NEAR(static_cast<double>(detail.at(cell)), exact, 0.01 * exact);
    }
  });
}

TEST(Detail, LosesNothingAtLevelZeroNorOnAFlatImageNorLessWhenCoarser) {
  Threads threads(2);
  const Detail flat =
      measure_detail(threads, build_pyramid(threads, flat_image({417, 250}, 9, 80, 255)));
  for_each_cell(flat, [&](const Cell& cell) { EXPECT_EQ(flat.at(cell), 0u); });

  const Detail detail = measure_detail(threads, build_pyramid(threads, noise_image({417, 250}, 3)));
  for_each_cell(detail, [&](const Cell& cell) {
    if (cell.level == 0) {
      EXPECT_EQ(detail.at(cell), 0u);
    } else {
      uint64_t finer = 0;
      const Grid grid = detail.grid[static_cast<size_t>(cell.level) - 1];
      for (int row = 2 * cell.row; row < std::min(2 * cell.row + 2, grid.rows); ++row)
        for (int col = 2 * cell.col; col < std::min(2 * cell.col + 2, grid.cols); ++col)
          finer += detail.at({cell.level - 1, row, col});
      EXPECT_GT(detail.at(cell), finer);
    }
  });
}

TEST(Detail, ReplicatedEdgesCountOnce) {
  Threads threads(1);
  // One white column, the last of 67: at level 1 it has no partner and loses nothing; what it loses
  // further up is weighted with the one column it stands for.
  Image image = flat_image({67, 32}, 0, 0, 0);
  fill_rectangle(image, 66, 0, 1, 32, 255, 255, 255);
  const Pyramid pyramid = build_pyramid(threads, image);
  const Detail detail = measure_detail(threads, pyramid);
  EXPECT_EQ(detail.at({1, 0, 1}), 0u);
  // Level 2: the parent of a black column pair (2 px) and the white one (1 px) is 128.
  const uint64_t expected = 3 * 32 * (uint64_t{2} * 128 * 128 + uint64_t{1} * 127 * 127);
  EXPECT_EQ(detail.at({2, 0, 0}), expected);
}

TEST(Detail, IsTheSameForAnyNumberOfThreads) {
  Threads one(1);
  const Pyramid pyramid = build_pyramid(one, scene_image({1000, 700}, 5));
  const Detail expected = measure_detail(one, pyramid);
  for (const int count : {2, 3, 8}) {
    Threads threads(count);
    EXPECT_EQ(measure_detail(threads, pyramid).lost, expected.lost) << count;
  }
}

}  // namespace
}  // namespace fovea
