// SPDX-License-Identifier: Apache-2.0
#include "relevance/figure.h"

#include <gtest/gtest.h>

#include <random>

#include "relevance/box_sum.h"

namespace fovea {
namespace {

using Channels = std::vector<ChannelValues>;

// Blobs of a few values: figures within figures, some cut off by the border.
Channels random_channels(Size size, uint32_t seed, int steps) {
  std::mt19937 random(seed);
  Channels channels(static_cast<size_t>(size.pixels()));
  for (size_t c = 0; c < kFigureChannels; ++c) {
    for (int i = 0; i < 30; ++i) {
      const auto value = static_cast<uint8_t>(random() % static_cast<uint32_t>(steps) * 255 /
                                              static_cast<uint32_t>(steps));
      const int x0 = static_cast<int>(random() % static_cast<uint32_t>(size.width_px));
      const int y0 = static_cast<int>(random() % static_cast<uint32_t>(size.height_px));
      const int x1 = std::min(size.width_px, x0 + 1 + static_cast<int>(random() % 20));
      const int y1 = std::min(size.height_px, y0 + 1 + static_cast<int>(random() % 20));
      for (int y = y0; y < y1; ++y)
        for (int x = x0; x < x1; ++x)
          channels[static_cast<size_t>(y * size.width_px + x)][c] = value;
    }
  }
  return channels;
}

Channels noise_channels(Size size, uint32_t seed) {
  std::mt19937 random(seed);
  Channels channels(static_cast<size_t>(size.pixels()));
  for (ChannelValues& pixel : channels)
    for (size_t c = 0; c < kFigureChannels; ++c) pixel[c] = static_cast<uint8_t>(random());
  return channels;
}

TEST(Figure, EqualsCutsAndFloodFillsForAnySize) {
  uint32_t seed = 1;
  for (const Size size : {Size{1, 1}, Size{1, 9}, Size{2, 2}, Size{3, 3}, Size{3, 40}, Size{17, 5},
                          Size{33, 29}, Size{64, 48}, Size{200, 3}}) {
    for (const Channels& channels :
         {random_channels(size, seed, 6), random_channels(size, seed + 50, 250),
          noise_channels(size, seed)})
      EXPECT_EQ(measure_figure(size, channels).value,
                measure_figure_reference(size, channels).value)
          << size.width_px << "x" << size.height_px << " seed " << seed;
    ++seed;
  }
}

TEST(Figure, FollowsASpiralToItsEnd) {
  // A corridor of one pixel winding inwards: open to the border, so nothing in it is surrounded,
  // however often the sweeps have to turn; its walls touch the border too.
  const Size size{41, 41};
  Channels channels(static_cast<size_t>(size.pixels()), ChannelValues{200, 200, 200, 200, 200});
  int x = 1;
  int y = 0;
  int dx = 0;
  int dy = 1;
  const auto at = [&](int u, int v) -> ChannelValues& {
    return channels[static_cast<size_t>(v * size.width_px + u)];
  };
  const auto carved = [&](int u, int v) {
    return u >= 0 && v >= 0 && u < size.width_px && v < size.height_px && at(u, v)[0] == 90;
  };
  int length = 0;
  for (int turns = 0; turns < 2;) {
    length += at(x, y)[0] == 90 ? 0 : 1;
    at(x, y).fill(90);
    const bool free = x + dx > 0 && y + dy > 0 && x + dx < size.width_px - 1 &&
                      y + dy < size.height_px - 1 && !carved(x + 2 * dx, y + 2 * dy);
    if (free) {
      x += dx;
      y += dy;
      turns = 0;
    } else {
      const int old_dx = dx;
      dx = dy;
      dy = -old_dx;
      ++turns;
    }
  }
  EXPECT_EQ(measure_figure(size, channels).value, measure_figure_reference(size, channels).value);
  EXPECT_GT(length, 700) << "not much of a spiral";
  EXPECT_EQ(measure_figure(size, channels).value, std::vector<uint32_t>(41 * 41, 0));
}

TEST(Figure, ASquareOnAGroundCountsOnceForEachThresholdBetweenThem) {
  const Size size{20, 16};
  Channels channels(static_cast<size_t>(size.pixels()));
  for (int y = 5; y < 9; ++y)
    for (int x = 7; x < 11; ++x) channels[static_cast<size_t>(y * size.width_px + x)][2] = 40;
  const Plane plane = measure_figure(size, channels);
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 20; ++x)
      // 40 thresholds from 0 to 39, 16 pixels: each weighs 4096 / 4.
      EXPECT_EQ(plane.row(y)[x], x >= 7 && x < 11 && y >= 5 && y < 9 ? 40U * 1024 : 0U);
}

TEST(Figure, WhatTouchesTheBorderIsGround) {
  const Size size{20, 16};
  Channels channels(static_cast<size_t>(size.pixels()));
  for (int y = 0; y < 9; ++y) channels[static_cast<size_t>(y * size.width_px + 7)].fill(90);
  EXPECT_EQ(measure_figure(size, channels).value, std::vector<uint32_t>(20 * 16, 0));
}

TEST(Figure, ADarkAndALightFigureCountAlike) {
  const Size size{31, 23};
  Channels channels = random_channels(size, 5, 9);
  const Plane one = measure_figure(size, channels);
  for (ChannelValues& pixel : channels)
    for (size_t c = 0; c < kFigureChannels; ++c) pixel[c] = static_cast<uint8_t>(255 - pixel[c]);
  EXPECT_EQ(measure_figure(size, channels).value, one.value);
}

TEST(BoxSum, EqualsPlainLoopsAndItsLargestSumFits) {
  std::mt19937 random(7);
  for (const Size size : {Size{1, 1}, Size{2, 9}, Size{9, 2}, Size{40, 33}}) {
    Plane plane(size);
    for (uint32_t& value : plane.value) value = random() % (5 * 255 * 4096 + 1);
    Plane expected = plane;
    for (int time = 0; time < 2; ++time) {
      const Plane before = expected;
      for (int y = 0; y < size.height_px; ++y) {
        for (int x = 0; x < size.width_px; ++x) {
          uint64_t sum = 0;
          for (int v = -2; v <= 2; ++v)
            for (int u = -2; u <= 2; ++u)
              sum += before.row(std::clamp(
                  y + v, 0, size.height_px - 1))[std::clamp(x + u, 0, size.width_px - 1)];
          ASSERT_LE(sum, 0xFFFFFFFFU);
          expected.row(y)[x] = static_cast<uint32_t>(sum);
        }
      }
    }
    EXPECT_EQ(box_sum(plane, 2, 2).value, expected.value);
  }
  Plane largest({6, 6});
  for (uint32_t& value : largest.value) value = 5 * 255 * 4096;
  EXPECT_EQ(box_sum(largest, 2, 2).value, std::vector<uint32_t>(36, 5U * 255 * 4096 * 625));
}

}  // namespace
}  // namespace fovea
