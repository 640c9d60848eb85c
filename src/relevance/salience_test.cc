// SPDX-License-Identifier: Apache-2.0
#include "relevance/salience.h"

#include <gtest/gtest.h>

#include <cmath>

#include "relevance/test_images.h"

namespace fovea {
namespace {

Image mirrored(const Image& image, bool across, bool down) {
  Image out(image.size);
  const int last_x = image.size.width_px - 1;
  const int last_y = image.size.height_px - 1;
  for (int y = 0; y <= last_y; ++y)
    for (int x = 0; x <= last_x; ++x)
      std::copy_n(image.row(y) + 3 * x, 3,
                  out.row(down ? last_y - y : y) + 3 * (across ? last_x - x : x));
  return out;
}

Cell best_cell(const Map& map) {
  const auto best = std::max_element(map.score.begin(), map.score.end()) - map.score.begin();
  return {0, static_cast<int>(best) / map.grid.cols, static_cast<int>(best) % map.grid.cols};
}

TEST(Salience, EqualsTheReferenceForAnySizeAndLevel) {
  Threads threads(2);
  struct Case {
    Size size;
    int work_level;
    SalienceParams params;
  };
  const std::vector<Case> cases = {{{1, 1}, 0, {}},
                                   {{5, 3}, 0, {}},
                                   {{32, 32}, 0, {0, false}},
                                   {{70, 50}, 0, {1, true}},
                                   {{130, 131}, 1, {0, true}},
                                   {{256, 96}, 1, {2, false}},
                                   {{3200, 16}, 1, {3, true}},
                                   {{32, 1600}, 1, {}},
                                   {{800, 608}, 3, {}}};
  uint32_t seed = 1;
  for (const Case& wanted : cases) {
    const Size size = wanted.size;
    const Pyramid pyramid = build_pyramid(threads, scene_image(size, seed++));
    EXPECT_EQ(salience_work_level(pyramid), wanted.work_level);
    const Map fast = measure_salience(threads, pyramid, wanted.params);
    EXPECT_EQ(fast.grid, grid_at(size, wanted.params.level));
    // Equal, not near: all that differs between the two is counted in integers.
    EXPECT_EQ(fast.score, measure_salience_reference(pyramid, wanted.params).score)
        << size.width_px << "x" << size.height_px << " level " << wanted.params.level;
    if (size.pixels() > 1) {
      EXPECT_EQ(*std::max_element(fast.score.begin(), fast.score.end()), 65535);
    }
  }
}

TEST(Salience, ALoneRedDotOnGreenWins) {
  Threads threads(2);
  // Bright greens, and one as light as the red, where nothing but colour tells.
  for (const int green : {255, 180, 131}) {
    for (const bool centre_bias : {false, true}) {
      for (const Cell cell : {Cell{0, 3, 4}, Cell{0, 14, 20}, Cell{0, 9, 22}}) {
        Image image = flat_image({800, 608}, 0, static_cast<uint8_t>(green), 0);
        fill_rectangle(image, cell.col * 32 + 4, cell.row * 32 + 4, 24, 24, 255, 0, 0);
        const Map map = measure_salience(threads, build_pyramid(threads, image), {0, centre_bias});
        EXPECT_EQ(best_cell(map), cell) << "green " << green << " centre " << centre_bias;
        EXPECT_LT(map.at(18 - cell.row, 24 - cell.col), 10000) << "the same place, mirrored";
      }
    }
  }
}

TEST(Salience, AFlatImageHasNoStructure) {
  Threads threads(2);
  for (const Size size : {Size{1, 1}, Size{256, 256}, Size{6400, 32}}) {
    for (const bool centre_bias : {false, true}) {
      const Map map = measure_salience(
          threads, build_pyramid(threads, flat_image(size, 90, 30, 200)), {0, centre_bias});
      EXPECT_EQ(map.score, std::vector<uint16_t>(map.score.size(), 0));
    }
  }
}

TEST(Salience, WithoutAFigureTextureDecides) {
  Threads threads(1);
  // Noise on the right half reaches three borders; what is surrounded in it lies there too.
  Image image = flat_image({512, 512}, 128, 128, 128);
  const Image noise = noise_image({256, 512}, 8);
  for (int y = 0; y < 512; ++y) std::copy_n(noise.row(y), 768, image.row(y) + 768);
  const Map map = measure_salience(threads, build_pyramid(threads, image), {0, false});
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 6; ++col) EXPECT_LT(map.at(row, col), map.at(row, 15 - col));
}

TEST(Salience, OfAMirroredPictureIsMirrored) {
  Threads threads(2);
  const Image image = scene_image({512, 384}, 12);
  const Map map = measure_salience(threads, build_pyramid(threads, image));
  for (const auto& [across, down] : {std::pair{true, false}, {false, true}, {true, true}}) {
    const Map other =
        measure_salience(threads, build_pyramid(threads, mirrored(image, across, down)));
    for (int row = 0; row < map.grid.rows; ++row)
      for (int col = 0; col < map.grid.cols; ++col)
        ASSERT_EQ(
            other.at(down ? map.grid.rows - 1 - row : row, across ? map.grid.cols - 1 - col : col),
            map.at(row, col));
  }
}

TEST(Salience, TheCentreBiasFavoursTheMiddleAndNothingElse) {
  Threads threads(2);
  const Pyramid pyramid = build_pyramid(threads, scene_image({640, 640}, 21));
  const Map off = measure_salience(threads, pyramid, {0, false});
  const Map on = measure_salience(threads, pyramid, {0, true});
  // on = off * centre / its largest value: the ratio falls with the distance from the middle alone.
  const auto ratio = [&](int row, int col) { return on.at(row, col) / (off.at(row, col) + 1e-9); };
  EXPECT_GT(ratio(9, 9), 1.5 * ratio(9, 0));
  EXPECT_GT(ratio(9, 0), 1.1 * ratio(0, 0));
  EXPECT_NEAR(ratio(2, 5), ratio(14, 17),
              0.02 * ratio(2, 5));  // scores of a few hundred steps round
}

TEST(Salience, IsTheSameForAnyNumberOfThreads) {
  Threads one(1);
  const Pyramid pyramid = build_pyramid(one, scene_image({1000, 700}, 5));
  const Map expected = measure_salience(one, pyramid);
  for (const int count : {2, 3, 8}) {
    Threads threads(count);
    EXPECT_EQ(measure_salience(threads, pyramid).score, expected.score) << count;
  }
}

TEST(Salience, CellsSmallerThanAWorkPixelAreInterpolated) {
  // A ramp at level 7, where a work pixel covers four cells a side.
  Plane ramp({100, 50});
  for (size_t i = 0; i < ramp.value.size(); ++i)
    ramp.value[i] = static_cast<uint32_t>(i % 100 * 1000);
  Plane even(ramp.size);
  std::fill(even.value.begin(), even.value.end(), 7U);
  const Map map = combine_salience(ramp, even, 7, {12800, 6400}, {0, false});
  ASSERT_EQ(map.grid, (Grid{200, 400}));
  for (int row = 0; row < 200; row += 9) {
    for (int col = 0; col < 400; ++col) {
      const double at = std::clamp((col + 0.5) / 4 - 0.5, 0.0, 99.0);
      const double f = (at / 99 + 0.02) / 1.02;
      EXPECT_NEAR(map.at(row, col), std::pow(f, 1.25) * 65535, 0.51) << col;  // half a step
    }
  }
}

}  // namespace
}  // namespace fovea
