// SPDX-License-Identifier: Apache-2.0
#include "pyramid/pyramid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pyramid/downsample.h"

namespace fovea {
namespace {

// Random bytes; from a table, for the property tests make thousands of images.
Image noise(Size size, uint32_t seed) {
  static const std::vector<uint8_t> table = [] {
    std::vector<uint8_t> bytes(10'007);  // a prime, so that rows do not repeat
    std::mt19937 random(1);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 9);
    return bytes;
  }();
  Image image(size);
  size_t from = seed * size_t{7919} % table.size();
  for (size_t to = 0; to < image.rgb.size(); from = 0) {
    const size_t count = std::min(table.size() - from, image.rgb.size() - to);
    std::memcpy(image.rgb.data() + to, table.data() + from, count);
    to += count;
  }
  return image;
}

std::string name_of(Size size) {
  return std::to_string(size.width_px) + "x" + std::to_string(size.height_px);
}

// Every level of the reference, one after the other, rows without padding.
std::vector<Image> reference(const Image& canvas, int levels) {
  std::vector<Image> images{canvas};
  while (static_cast<int>(images.size()) < levels) {
    const Size fine = images.back().size;
    images.emplace_back(Size{(fine.width_px + 1) / 2, (fine.height_px + 1) / 2});
  }
  std::vector<LevelPixels> pixels;
  for (Image& image : images)
    pixels.push_back({image.rgb.data(), image.size, int64_t{3} * image.size.width_px});
  downsample_reference(pixels);
  return images;
}

::testing::AssertionResult equal(const Pyramid& pyramid, const std::vector<Image>& expected) {
  if (pyramid.levels() != static_cast<int>(expected.size()))
    return ::testing::AssertionFailure() << pyramid.levels() << " levels, not " << expected.size();
  for (int level = 0; level < pyramid.levels(); ++level) {
    const LevelView view = pyramid.level(level);
    const Image& image = expected[static_cast<size_t>(level)];
    if (view.size != image.size)
      return ::testing::AssertionFailure() << "level " << level << " is " << name_of(view.size);
    for (int y = 0; y < view.size.height_px; ++y)
      for (int i = 0; i < 3 * view.size.width_px; ++i)
        if (view.row(y)[i] != image.row(y)[i])
          return ::testing::AssertionFailure()
                 << "level " << level << " row " << y << " byte " << i << " is "
                 << int{view.row(y)[i]} << ", not " << int{image.row(y)[i]};
  }
  return ::testing::AssertionSuccess();
}

TEST(Pyramid, GoesOnUntilOneCellCoversTheCanvas) {
  Threads threads(1);
  for (const auto& [size, levels] : {std::pair{Size{1, 1}, 1},
                                     {Size{32, 32}, 1},
                                     {Size{33, 1}, 2},
                                     {Size{64, 64}, 2},
                                     {Size{64, 65}, 3},
                                     {Size{1024, 1024}, 6}}) {
    const Pyramid pyramid = build_pyramid(threads, noise(size, 1));
    EXPECT_EQ(pyramid.levels(), levels) << name_of(size);
    const Size last = pyramid.level(levels - 1).size;
    EXPECT_LE(std::max(last.width_px, last.height_px), kCellPx);
    EXPECT_EQ(pyramid.canvas(), size);
  }
}

TEST(Pyramid, EqualsTheReferenceForAnySizeAndNumberOfThreads) {
  const std::array<Size, 12> sizes = {{{1, 1},
                                       {1, 77},
                                       {77, 1},
                                       {31, 33},
                                       {64, 64},
                                       {65, 63},
                                       {131, 257},
                                       {500, 31},
                                       {997, 211},
                                       {31, 997},
                                       {640, 480},
                                       {1200, 900}}};
  for (const int count : {1, 2, 3, 8}) {
    Threads threads(count);
    for (const Size size : sizes) {
      const Image canvas = noise(size, 2);
      const Pyramid pyramid = build_pyramid(threads, canvas);
      EXPECT_TRUE(equal(pyramid, reference(canvas, level_count(size))))
          << name_of(size) << " on " << count << " threads";
    }
  }
}

TEST(Pyramid, TakesAnyNumberOfLevels) {
  Threads threads(2);
  const Image canvas = noise({150, 90}, 3);
  for (const int levels : {1, 2, 5, 6, 7, 8, 9, 12, kMaxLevels})
    EXPECT_TRUE(equal(build_pyramid(threads, canvas, levels), reference(canvas, levels)))
        << levels << " levels";
}

TEST(Pyramid, ALargeCanvasWithOddSidesEqualsTheReference) {
  Threads threads(2);
  const Size size{4099, 2811};  // odd at several levels
  const Image canvas = noise(size, 4);
  EXPECT_TRUE(equal(build_pyramid(threads, canvas), reference(canvas, level_count(size))));
}

TEST(Pyramid, LevelsStartTheirRowsOnCacheLines) {
  Threads threads(1);
  const Pyramid pyramid = build_pyramid(threads, noise({333, 77}, 5));
  for (int level = 1; level < pyramid.levels(); ++level) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pyramid.level(level).row(0)) % kCacheLineBytes, 0U);
    EXPECT_EQ(pyramid.level(level).stride_bytes % kCacheLineBytes, 0);
  }
}

TEST(Pyramid, TakesTheCanvasWithoutCopyingIt) {
  Threads threads(1);
  Image canvas = noise({100, 100}, 6);
  const uint8_t* pixels = canvas.rgb.data();
  Pyramid pyramid = build_pyramid(threads, std::move(canvas));
  EXPECT_EQ(pyramid.level(0).rgb, pixels);
  const Pyramid moved = std::move(pyramid);
  EXPECT_EQ(moved.level(0).rgb, pixels);
}

TEST(Pyramids, ABatchEqualsItsImagesOneByOne) {
  const std::array<Size, 7> sizes = {
      {{224, 224}, {1, 1}, {33, 700}, {224, 224}, {640, 360}, {5, 3}, {129, 31}}};
  for (const int count : {1, 2, 5}) {
    Threads threads(count);
    std::vector<Image> canvases;
    for (size_t i = 0; i < sizes.size(); ++i)
      canvases.push_back(noise(sizes[i], static_cast<uint32_t>(i)));
    const std::vector<Image> kept = canvases;
    const std::vector<Pyramid> batch = build_pyramids(threads, std::move(canvases));
    ASSERT_EQ(batch.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(equal(batch[i], reference(kept[i], level_count(kept[i].size))))
          << "image " << i << " on " << count << " threads";
  }
}

TEST(Pyramids, AnEmptyBatchIsEmpty) {
  Threads threads(2);
  EXPECT_TRUE(build_pyramids(threads, {}).empty());
}

TEST(RebuildPyramid, TakesANewCanvasAndGivesTheOldOneBack) {
  Threads threads(2);
  const Image first = noise({203, 150}, 7);
  const Image second = noise({203, 150}, 8);
  Pyramid pyramid = build_pyramid(threads, first);
  const uint8_t* level1 = pyramid.level(1).rgb;
  const Image old = rebuild_pyramid(threads, pyramid, second);
  EXPECT_EQ(old.rgb, first.rgb);
  EXPECT_EQ(pyramid.level(1).rgb, level1);
  EXPECT_TRUE(equal(pyramid, reference(second, pyramid.levels())));
}

// Random edits of random tiles, as a property: an update equals a rebuild bit for bit.
class Editing {
 public:
  explicit Editing(uint32_t seed) : random_(seed) {}

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  Size any_size() {
    switch (below(4)) {
      case 0:
        return {1 + below(40), 1 + below(600)};
      case 1:
        return {1 + below(4200), 1 + below(40)};
      case 2:  // at most one pixel off the edge of a tile
        return {kTileWidthPx * (1 + below(2)) + below(3) - 1,
                kTileHeightPx * (1 + below(4)) + below(3) - 1};
      default:
        return {1 + below(2600), 1 + below(100)};
    }
  }

  // Some tiles, edges and repetitions among them, in any order.
  std::vector<Tile> any_tiles(Size canvas) {
    const Grid grid = tile_grid(canvas);
    std::vector<Tile> tiles(static_cast<size_t>(below(6)));
    for (Tile& tile : tiles) {
      tile = {below(grid.rows), below(grid.cols)};
      if (below(3) == 0) tile.row = grid.rows - 1;
      if (below(3) == 0) tile.col = grid.cols - 1;
    }
    return tiles;
  }

  // Changes some pixels of a tile, its corners always.
  void edit(const LevelPixels& canvas, const Tile& tile) {
    const int left = tile.col * kTileWidthPx;
    const int top = tile.row * kTileHeightPx;
    const int width = std::min(kTileWidthPx, canvas.size.width_px - left);
    const int height = std::min(kTileHeightPx, canvas.size.height_px - top);
    for (const int x : {0, width - 1, below(width), below(width)})
      for (const int y : {0, height - 1, below(height), below(height)})
        canvas.row(top + y)[3 * (left + x) + below(3)] ^= static_cast<uint8_t>(1 + below(255));
  }

 private:
  std::mt19937 random_;
};

TEST(UpdatePyramid, EqualsARebuildForRandomEdits) {
  Threads threads(3);
  Editing editing(9);
  for (int round = 0; round < 400; ++round) {
    const Size size = editing.any_size();
    const int levels = editing.below(3) == 0 ? 1 + editing.below(12) : 0;
    Pyramid pyramid = build_pyramid(threads, noise(size, static_cast<uint32_t>(round)), levels);
    for (int step = 0; step < 2; ++step) {
      const std::vector<Tile> changed = editing.any_tiles(size);
      for (const Tile& tile : changed) editing.edit(pyramid.edit(), tile);
      update_pyramid(threads, pyramid, changed);
    }
    Image canvas(size);
    std::memcpy(canvas.rgb.data(), pyramid.level(0).rgb, canvas.rgb.size());
    ASSERT_TRUE(equal(pyramid, reference(canvas, pyramid.levels())))
        << "round " << round << ", " << name_of(size) << ", " << pyramid.levels() << " levels";
  }
}

TEST(UpdatePyramid, TakesTheNextFrame) {
  Threads threads(2);
  Editing editing(10);
  const Size size{2300, 155};
  Image frame = noise(size, 11);
  Pyramid pyramid = build_pyramid(threads, frame);
  for (int i = 0; i < 5; ++i) {
    const std::vector<Tile> changed = editing.any_tiles(size);
    const Image last = frame;
    for (const Tile& tile : changed)
      editing.edit({frame.rgb.data(), size, int64_t{3} * size.width_px}, tile);
    const Image old = update_pyramid(threads, pyramid, frame, changed);
    EXPECT_EQ(old.rgb, last.rgb);
    ASSERT_TRUE(equal(pyramid, reference(frame, pyramid.levels()))) << "frame " << i;
  }
}

TEST(UpdatePyramid, LeavesWhatDidNotChangeAlone) {
  Threads threads(1);
  Pyramid pyramid = build_pyramid(threads, noise({4096, 128}, 12));
  const std::array<uint8_t, 3> poison = {0xA5, 0x5A, 0xA5};
  // A pixel of level 1 that belongs to another tile keeps what was written there.
  auto* elsewhere = const_cast<uint8_t*>(pyramid.level(1).row(20) + 3 * 1100);
  std::copy(poison.begin(), poison.end(), elsewhere);
  const std::array<Tile, 3> changed = {{{0, 0}, {0, 1}, {1, 0}}};
  update_pyramid(threads, pyramid, changed);
  EXPECT_TRUE(std::equal(poison.begin(), poison.end(), elsewhere));
}

TEST(PyramidDeathTest, RefusesWhatOnlyAMistakeCanGive) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Threads threads(1);
  EXPECT_DEATH(build_pyramid(threads, Image()), "check failed");
  Pyramid pyramid = build_pyramid(threads, noise({200, 100}, 13));
  const std::array<Tile, 1> outside = {{{4, 0}}};
  EXPECT_DEATH(update_pyramid(threads, pyramid, outside), "check failed");
  EXPECT_DEATH(rebuild_pyramid(threads, pyramid, noise({100, 200}, 14)), "check failed");
}

}  // namespace
}  // namespace fovea
