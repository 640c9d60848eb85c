// SPDX-License-Identifier: Apache-2.0
#include "pyramid/resize.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

namespace fovea {
namespace {

Image random_image(Size size, std::mt19937& random, bool extreme) {
  Image image(size);
  for (uint8_t& value : image.rgb)
    value = static_cast<uint8_t>(extreme ? random() % 2 * 255 : random() % 256);
  return image;
}

std::string name(Size from, Size to) {
  return std::to_string(from.width_px) + "x" + std::to_string(from.height_px) + " -> " +
         std::to_string(to.width_px) + "x" + std::to_string(to.height_px);
}

void expect_equal(const Image& got, const Image& expected, const std::string& what) {
  ASSERT_EQ(got.size, expected.size) << what;
  const auto [bad, wanted] = std::mismatch(got.rgb.begin(), got.rgb.end(), expected.rgb.begin());
  if (bad == got.rgb.end()) return;
  FAIL() << what << ", first bad index " << bad - got.rgb.begin() << ": " << int{*bad}
         << ", expected " << int{*wanted};
}

const std::vector<std::pair<Size, Size>>& shapes() {
  static const std::vector<std::pair<Size, Size>> all = {
      {{1, 1}, {256, 256}},     {{1, 1}, {2, 1}},         {{2, 1}, {1, 1}},
      {{3, 5}, {1, 1}},         {{7, 3}, {416, 192}},     {{64, 64}, {256, 256}},
      {{300, 200}, {320, 224}}, {{513, 257}, {512, 256}}, {{333, 40}, {320, 40}},
      {{40, 333}, {40, 320}},   {{17, 16}, {16, 17}},     {{500, 31}, {409, 25}},
      {{900, 70}, {9, 7}},      {{21, 22}, {20, 22}},     {{21, 22}, {21, 23}},
      {{5, 300}, {6, 299}},     {{2000, 13}, {3, 13}},    {{259, 150}, {259, 7}},
      {{50, 80}, {51, 79}},     {{700, 900}, {650, 40}}};
  return all;
}

TEST(Resize, EveryTargetAndThreadCountEqualsTheReference) {
  std::mt19937 random(1);
  for (const auto& [from, to] : shapes()) {
    const Image image = random_image(from, random, from.width_px % 2 == 0);
    const Image expected = resize_bicubic_reference(image, to);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      for (const int count : {1, 2, 3, 8}) {
        Threads threads(count);
        expect_equal(resize_bicubic(threads, image, to), expected,
                     name(from, to) + " on " + hwy::TargetName(target) + ", " +
                         std::to_string(count) + " threads");
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(Resize, RandomShapesEqualTheReference) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> side(0, std::log(400.0));
  const auto draw = [&] { return static_cast<int>(std::exp(side(random))); };
  Threads threads(2);
  for (int i = 0; i < 300; ++i) {
    const Size from{draw(), draw()};
    Size to{draw(), draw()};
    if (i % 4 == 0) to.width_px = from.width_px;
    if (i % 4 == 1) to.height_px = from.height_px;
    const Image image = random_image(from, random, i % 2 == 0);
    expect_equal(resize_bicubic(threads, image, to), resize_bicubic_reference(image, to),
                 name(from, to));
  }
}

// Several tiles both ways, with borders inside the image.
TEST(Resize, AnImageOfManyTilesEqualsTheReference) {
  std::mt19937 random(3);
  Threads threads(3);
  for (const auto& [from, to] : {std::pair<Size, Size>{{1100, 700}, {1088, 704}},
                                 std::pair<Size, Size>{{1100, 700}, {700, 300}},
                                 std::pair<Size, Size>{{1100, 700}, {1120, 672}},
                                 std::pair<Size, Size>{{1300, 900}, {1200, 150}}}) {
    const Image image = random_image(from, random, false);
    expect_equal(resize_bicubic(threads, image, to), resize_bicubic_reference(image, to),
                 name(from, to));
  }
}

TEST(Resize, ThePassesTakePillowsOrder) {
  EXPECT_TRUE(vertical_first({50, 80}, {51, 79}));
  EXPECT_TRUE(vertical_first({60, 150}, {58, 145}));
  EXPECT_FALSE(vertical_first({60, 150}, {58, 146}));  // not more than twice
  EXPECT_FALSE(vertical_first({50, 80}, {90, 81}));    // the height grows
  EXPECT_FALSE(vertical_first({64, 64}, {256, 256}));
}

TEST(Resize, AFlatImageStaysFlat) {
  Threads threads(2);
  for (const int value : {0, 1, 127, 128, 254, 255}) {
    Image image({123, 45});
    std::fill(image.rgb.begin(), image.rgb.end(), static_cast<uint8_t>(value));
    for (const Size to : {Size{128, 64}, Size{96, 32}, Size{123, 44}, Size{7, 45}}) {
      const Image out = resize_bicubic(threads, image, to);
      for (const uint8_t got : out.rgb) ASSERT_EQ(int{got}, value) << name(image.size, to);
    }
  }
}

TEST(Resize, MirroringTheImageMirrorsTheResult) {
  std::mt19937 random(4);
  Threads threads(2);
  const Image image = random_image({201, 33}, random, false);
  const auto mirror = [](const Image& in) {
    Image out(in.size);
    for (int y = 0; y < in.size.height_px; ++y)
      for (int x = 0; x < in.size.width_px; ++x)
        for (int c = 0; c < 3; ++c)
          out.row(y)[x * 3 + c] = in.row(y)[(in.size.width_px - 1 - x) * 3 + c];
    return out;
  };
  for (const Size to : {Size{192, 32}, Size{224, 64}, Size{50, 33}})
    expect_equal(resize_bicubic(threads, mirror(image), to),
                 mirror(resize_bicubic(threads, image, to)), name(image.size, to));
}

TEST(ResizeAxis, WeightsSumToOneWithinTheirRounding) {
  for (const auto& [in, out] : {std::pair{1, 256}, std::pair{64, 256}, std::pair{300, 320},
                                std::pair{1000, 992}, std::pair{5000, 4096}, std::pair{4000, 32}}) {
    const ResizeAxis axis = make_resize_axis(in, out);
    for (int i = 0; i < out; ++i) {
      const auto begin = axis.weight.begin() + static_cast<int64_t>(i) * axis.taps;
      const int sum = std::accumulate(begin, begin + axis.taps, 0);
      // Each weight is rounded by at most half a step.
      EXPECT_NEAR(sum, 1 << kWeightBits, 0.5 * axis.count[static_cast<size_t>(i)])
          << in << " -> " << out << " at " << i;
      EXPECT_GE(axis.first[static_cast<size_t>(i)], 0);
      EXPECT_LE(axis.first[static_cast<size_t>(i)] + axis.count[static_cast<size_t>(i)], in);
    }
  }
}

// What the fast form relies on: high parts of a weight fit 16 bits, sums of products 32.
TEST(ResizeAxis, WeightsLeaveRoomForTheirSums) {
  for (int in = 1; in <= 40; ++in) {
    for (const int out : {1, 2, 3, 5, 31, 32, 33, 256, 4096}) {
      const ResizeAxis axis = make_resize_axis(in, out);
      for (int i = 0; i < out; ++i) {
        const auto begin = axis.weight.begin() + static_cast<int64_t>(i) * axis.taps;
        int64_t sum = 0;
        for (int j = 0; j < axis.taps; ++j) sum += std::abs(begin[j]);
        ASSERT_LT(255 * sum + (1 << (kWeightBits - 1)), int64_t{1} << 31) << in << " -> " << out;
      }
    }
  }
}

TEST(ResizeAxis, DoublingGivesTheCubicsExactWeights) {
  // Doubling: a quarter pixel off, the cubic gives -9, 111, 29, -3 of 128.
  const ResizeAxis axis = make_resize_axis(16, 32);
  const std::array<int32_t, 4> expected = {-3 << 15, 29 << 15, 111 << 15, -9 << 15};
  const auto begin = axis.weight.begin() + int64_t{16} * axis.taps;
  EXPECT_EQ(axis.first[16], 6);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), begin));
}

}  // namespace
}  // namespace fovea
