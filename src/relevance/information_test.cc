// SPDX-License-Identifier: Apache-2.0
#include "relevance/information.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "relevance/luma.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

TEST(Information, EqualsTheReferenceForAnySize) {
  Threads threads(2);
  uint32_t seed = 1;
  for (const Size size : odd_sizes()) {
    for (const Image& image : {noise_image(size, seed), scene_image(size, seed)}) {
      const Map fast = measure_information(threads, view_of(image));
      const Map plain = measure_information_reference(view_of(image));
      ASSERT_EQ(fast.grid, plain.grid);
      EXPECT_EQ(fast.score, plain.score) << size.width_px << "x" << size.height_px;
    }
    ++seed;
  }
}

TEST(Information, AgreesWithTheFormulaInDoubles) {
  const Image image = scene_image({96, 64}, 7);
  const Map map = measure_information_reference(view_of(image));
  for (int row = 0; row < 2; ++row) {
    for (int col = 0; col < 3; ++col) {
      std::vector<double> count(kInformationBins);
      for (int y = 0; y < kCellPx; ++y)
        for (int x = 0; x < kCellPx; ++x)
          ++count[static_cast<size_t>(luma_of(image.row(row * 32 + y) + 3 * (col * 32 + x)) / 4)];
      double bits = 0;
      for (const double n : count)
        if (n > 0) bits -= n / 1024 * std::log2(n / 1024);
      // Half a step of the score, and the table's rounding: 64 bins / 65536 / 1024 bits, far less.
      EXPECT_NEAR(map.at(row, col), bits / 6 * 65535, 0.51);
    }
  }
}

TEST(Information, AFlatCellIsExactlyZeroAndAnEvenHistogramIsOne) {
  Threads threads(2);
  Image image = flat_image({64, 32}, 17, 200, 94);
  std::vector<int> order(1024);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  for (int i = 0; i < 1024; ++i) {
    const auto gray = static_cast<uint8_t>(i % 256);
    fill_rectangle(image, 32 + order[i] % 32, order[i] / 32, 1, 1, gray, gray, gray);
  }
  const Map map = measure_information(threads, view_of(image));
  EXPECT_EQ(map.at(0, 0), 0);
  EXPECT_EQ(map.at(0, 1), 65535);
}

TEST(Information, TwoEqualHalvesAreOneBit) {
  Threads threads(1);
  Image image = flat_image({32, 32}, 0, 0, 0);
  fill_rectangle(image, 0, 0, 16, 32, 255, 255, 255);
  EXPECT_NEAR(measure_information(threads, view_of(image)).at(0, 0), 65535.0 / 6, 0.51);
}

TEST(Information, WhereThePixelsLieInACellDoesNotMatter) {
  Threads threads(2);
  Image image = scene_image({32, 32}, 9);
  const Map before = measure_information(threads, view_of(image));
  std::vector<int> order(1024);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(4));
  Image shuffled(image.size);
  for (size_t i = 0; i < 1024; ++i)
    for (size_t c = 0; c < 3; ++c)
      shuffled.rgb[i * 3 + c] = image.rgb[static_cast<size_t>(order[i]) * 3 + c];
  EXPECT_EQ(measure_information(threads, view_of(shuffled)).score, before.score);
  EXPECT_GT(before.at(0, 0), 0);
}

TEST(Information, AnEdgeCellCountsOnlyThePixelsThatExist) {
  Threads threads(2);
  // The right cells hold two columns, one black and one white: one bit, whatever hangs over.
  Image image = flat_image({34, 40}, 0, 0, 0);
  fill_rectangle(image, 33, 0, 1, 40, 255, 255, 255);
  const Map map = measure_information(threads, view_of(image));
  EXPECT_EQ(map.grid, (Grid{2, 2}));
  EXPECT_EQ(map.at(0, 0), 0);
  EXPECT_NEAR(map.at(0, 1), 65535.0 / 6, 0.51);
  EXPECT_NEAR(map.at(1, 1), 65535.0 / 6, 0.51);
}

TEST(Information, IsTheSameForAnyNumberOfThreads) {
  const Image image = scene_image({1000, 700}, 5);
  Threads one(1);
  const Map expected = measure_information(one, view_of(image));
  for (const int count : {2, 3, 8}) {
    Threads threads(count);
    EXPECT_EQ(measure_information(threads, view_of(image)).score, expected.score) << count;
  }
}

TEST(Information, ReadsARowStrideOtherThanTheWidth) {
  Threads threads(2);
  const Image wide = noise_image({150, 40}, 6);
  const LevelView part{wide.row(3) + 3 * 5, {70, 33}, int64_t{150} * 3};
  EXPECT_EQ(measure_information(threads, part).score, measure_information_reference(part).score);
}

}  // namespace
}  // namespace fovea
