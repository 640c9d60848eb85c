// SPDX-License-Identifier: Apache-2.0
#include "pyramid/downsample.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#define HWY_WANT_AVX3_DL  // as downsample_cpu.cc
#include "hwy/targets.h"

namespace fovea {
namespace {

constexpr uint8_t kPoison = 0xA5;

// Levels in memory of their own. Every row has poisoned bytes on both sides, and so has the whole.
class GuardedLevels {
 public:
  GuardedLevels(Size canvas, int count, uint32_t seed, int64_t padding = 37) {
    Size size = canvas;
    for (int level = 0; level < count; ++level) {
      const int64_t stride = int64_t{3} * size.width_px + padding;
      memory_.emplace_back(static_cast<size_t>(stride * (size.height_px + 1)), kPoison);
      pixels_.push_back({nullptr, size, stride});
      size = {(size.width_px + 1) / 2, (size.height_px + 1) / 2};
    }
    for (size_t level = 0; level < pixels_.size(); ++level)
      pixels_[level].rgb = memory_[level].data() + padding;
    std::mt19937 random(seed);
    for (int y = 0; y < canvas.height_px; ++y)
      for (int i = 0; i < 3 * canvas.width_px; ++i)
        pixels_[0].row(y)[i] = static_cast<uint8_t>(random() >> 11);
  }

  Levels levels() const { return pixels_; }

  // Equal pixels and equal guards.
  friend ::testing::AssertionResult same(const GuardedLevels& a, const GuardedLevels& b) {
    for (size_t level = 0; level < a.memory_.size(); ++level) {
      if (a.memory_[level] == b.memory_[level]) continue;
      const auto stride = static_cast<size_t>(a.pixels_[level].stride_bytes);
      size_t at = 0;
      while (a.memory_[level][at] == b.memory_[level][at]) ++at;
      return ::testing::AssertionFailure()
             << "first bad byte of level " << level << ": row " << at / stride << ", byte "
             << at % stride << " is " << int{a.memory_[level][at]} << ", not "
             << int{b.memory_[level][at]};
    }
    return ::testing::AssertionSuccess();
  }

 private:
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<LevelPixels> pixels_;
};

std::string name_of(Size size) {
  return std::to_string(size.width_px) + "x" + std::to_string(size.height_px);
}

// Runs the test once for every instruction set that was built and that this processor has.
class OnEveryTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  static void check_whole(Size size, int count, uint32_t seed) {
    GuardedLevels expected(size, count, seed);
    GuardedLevels actual(size, count, seed);
    downsample_reference(expected.levels());
    downsample_block(actual.levels(), {0, 0, size.width_px, size.height_px});
    EXPECT_TRUE(same(actual, expected)) << name_of(size) << ", " << count << " levels";
  }
};

TEST_P(OnEveryTarget, OneHalvingEqualsTheReferenceForEverySmallSize) {
  for (int height = 1; height <= 70; height += height < 6 ? 1 : 16)
    for (int width = 1; width <= 70; ++width) check_whole({width, height}, 2, 1);
}

TEST_P(OnEveryTarget, AllLevelsEqualTheReferenceForOddPrimeAndThinSizes) {
  const std::array<Size, 10> sizes = {{{97, 89},
                                       {127, 129},
                                       {255, 33},
                                       {401, 7},
                                       {1, 300},
                                       {300, 1},
                                       {2, 301},
                                       {509, 128},
                                       {1031, 35},
                                       {64, 64}}};
  for (const Size size : sizes)
    for (const int count : {3, 6, 11}) check_whole(size, count, 2);
}

TEST_P(OnEveryTarget, ABlockWritesItsOwnPixelsAlone) {
  constexpr int kCount = 4;  // blocks of multiples of 8 px
  const Size size{203, 61};
  GuardedLevels expected(size, kCount, 4);
  GuardedLevels actual(size, kCount, 4);
  GuardedLevels whole(size, kCount, 4);
  downsample_reference(whole.levels());
  for (const Block& block :
       {Block{8, 16, 16, 8}, Block{48, 0, 120, 24}, Block{184, 40, 19, 21}, Block{0, 56, 8, 5}}) {
    downsample_block(actual.levels(), block);
    for (int level = 1; level < kCount; ++level) {
      const LevelPixels& from = whole.levels()[static_cast<size_t>(level)];
      const LevelPixels& to = expected.levels()[static_cast<size_t>(level)];
      const int left = block.x_px >> level;
      const int right = (block.x_px + block.width_px - 1) >> level;
      for (int y = block.y_px >> level; y <= (block.y_px + block.height_px - 1) >> level; ++y)
        std::memcpy(to.row(y) + 3 * left, from.row(y) + 3 * left,
                    static_cast<size_t>(3 * (right - left + 1)));
    }
    EXPECT_TRUE(same(actual, expected)) << "block at " << block.x_px << "," << block.y_px;
  }
}

TEST_P(OnEveryTarget, EverySumIsRoundedHalfUp) {
  // Four values whose sum is `sum`, for every sum there is, at every place of a row.
  for (int sum = 0; sum <= 4 * 255; ++sum) {
    GuardedLevels levels({50, 2}, 2, 5);
    const LevelPixels fine = levels.levels()[0];
    for (int x = 0; x < 25; ++x) {
      for (int c = 0; c < 3; ++c) {
        std::array<int, 4> values{};
        for (int i = 0; i < 4; ++i) values[static_cast<size_t>(i)] = (sum + i) / 4;
        const int moved = std::min({255 - values[0], values[3], 17 * x % 64 + c});
        values[0] += moved;
        values[3] -= moved;
        for (int i = 0; i < 4; ++i)
          fine.row(i / 2)[3 * (2 * x + i % 2) + c] =
              static_cast<uint8_t>(values[static_cast<size_t>(i)]);
      }
    }
    downsample_block(levels.levels(), {0, 0, 50, 2});
    const int expected = static_cast<int>(sum / 4.0 + 0.5);
    for (int i = 0; i < 75; ++i)
      ASSERT_EQ(levels.levels()[1].row(0)[i], expected) << "sum " << sum << ", byte " << i;
  }
}

std::vector<int64_t> targets() { return hwy::SupportedAndGeneratedTargets(); }

INSTANTIATE_TEST_SUITE_P(Downsample, OnEveryTarget, ::testing::ValuesIn(targets()),
                         [](const ::testing::TestParamInfo<int64_t>& target) {
                           return std::string(hwy::TargetName(target.param));
                         });

TEST(DownsampleReference, AveragesTwoByTwoAndRepeatsTheLastRowAndColumn) {
  GuardedLevels levels({3, 3}, 3, 6);
  const LevelPixels fine = levels.levels()[0];
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 3; ++x)
      for (int c = 0; c < 3; ++c)
        fine.row(y)[3 * x + c] = static_cast<uint8_t>(10 * y + x + 100 * c / 2);
  downsample_reference(levels.levels());
  const LevelPixels half = levels.levels()[1];
  EXPECT_EQ(half.row(0)[0], (0 + 1 + 10 + 11 + 2) / 4);
  EXPECT_EQ(half.row(0)[3], (2 + 2 + 12 + 12 + 2) / 4);
  EXPECT_EQ(half.row(1)[0], (20 + 21 + 20 + 21 + 2) / 4);
  EXPECT_EQ(half.row(1)[3], 22);
  EXPECT_EQ(half.row(1)[5], 122);
  EXPECT_EQ(levels.levels()[2].row(0)[0], (6 + 7 + 21 + 22 + 2) / 4);
}

}  // namespace
}  // namespace fovea
