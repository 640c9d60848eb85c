// SPDX-License-Identifier: Apache-2.0
#include "pyramid/pyramid_cuda.h"

#include <algorithm>
#include <array>

#include "device/cuda/test_device.h"
#include "pyramid/test_device_pyramids.h"

namespace fovea {
namespace {

// Widths and heights of one, some and many blocks, with levels of odd sides.
constexpr std::array<Size, 10> kSizes = {{{32, 32},
                                          {96, 64},
                                          {32, 2048},
                                          {4096, 32},
                                          {224, 160},
                                          {288, 352},
                                          {1056, 96},
                                          {672, 800},
                                          {2080, 224},
                                          {1024, 1024}}};
constexpr std::array<Size, 2> kLargeSizes = {{{4096, 4096}, {5024, 3360}}};

class PyramidCuda : public CudaTest {
 protected:
  void make(Size canvas, int images, int levels = 0) {
    const Status made = pyramids_.make(canvas, images, levels);
    ASSERT_TRUE(made) << made.error().message;
  }
  // Bytes that no test expects, in every level.
  void poison() {
    const DevicePyramids view = pyramids_.view();
    for (int level = 0; level < view.levels; ++level)
      cudaMemsetAsync(view.rgb[level], 0xA5,
                      static_cast<size_t>(view.image_bytes[level] * view.images), stream());
  }
  void upload(int image, const Image& canvas) {
    upload_canvas_cuda(stream(), pyramids_.view(), image, canvas.rgb.data());
  }
  void build(PyramidLoads loads) {
    build_pyramids_cuda(stream(), pyramids_.view(), pyramids_.done(), loads);
  }

  void check_batch(Size canvas, int images, int levels = 0) {
    make(canvas, images, levels);
    for (const PyramidLoads loads : {PyramidLoads::kDirect, PyramidLoads::kStaged}) {
      poison();
      std::vector<Image> canvases;
      for (int i = 0; i < images; ++i) {
        canvases.push_back(random_canvas(canvas, static_cast<uint32_t>(7 * i + 1)));
        upload(i, canvases.back());
      }
      build(loads);
      for (int i = 0; i < images; ++i) {
        const Pyramid expected = build_pyramid(threads_, canvases[static_cast<size_t>(i)], levels);
        EXPECT_TRUE(same_levels(stream_, pyramids_.view(), i, expected))
            << "loads " << static_cast<int>(loads);
      }
    }
  }

  void update(int image, const std::vector<Tile>& tiles) {
    const auto changed = on_device(tiles);
    update_pyramids_cuda(stream(), pyramids_.view(), image, changed.data(),
                         static_cast<int>(tiles.size()), pyramids_.done());
    EXPECT_TRUE(stream_.wait());
  }

  Threads threads_{2};
  PyramidsOnDevice pyramids_;
};

TEST_F(PyramidCuda, EqualsTheHostsForEverySize) {
  for (const Size size : kSizes) check_batch(size, 1);
}

TEST_F(PyramidCuda, EqualsTheHostsForLargeSizes) {
  if (kEmulated) GTEST_SKIP() << "large canvases take too long when emulated";
  for (const Size size : kLargeSizes) check_batch(size, 2);
}

TEST_F(PyramidCuda, ABatchIsManyImages) {
  check_batch({320, 288}, 5);
  check_batch({2048, 64}, 3);
}

TEST_F(PyramidCuda, MakesAsManyLevelsAsAskedFor) {
  for (int levels = 1; levels <= 11; ++levels) check_batch({544, 224}, 2, levels);
}

TEST_F(PyramidCuda, RoundsHalfUp) {
  for (const int extra : {0, 1, 2, 3}) {  // of the four values of a box, in every channel
    Image canvas({64, 32});
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 64; ++x)
        for (int c = 0; c < 3; ++c)
          canvas.row(y)[3 * x + c] =
              static_cast<uint8_t>(100 + 70 * c + (2 * (y % 2) + x % 2 < extra ? 1 : 0));
    make(canvas.size, 1);
    upload(0, canvas);
    build(PyramidLoads::kDirect);
    EXPECT_TRUE(same_levels(stream_, pyramids_.view(), 0, build_pyramid(threads_, canvas)));
  }
}

TEST_F(PyramidCuda, WhiteAndBlackStay) {
  for (const uint8_t value : {0, 255}) {
    Image canvas({256, 64});
    std::fill(canvas.rgb.begin(), canvas.rgb.end(), value);
    make(canvas.size, 1);
    upload(0, canvas);
    build(PyramidLoads::kDirect);
    EXPECT_TRUE(same_levels(stream_, pyramids_.view(), 0, build_pyramid(threads_, canvas)));
  }
}

TEST_F(PyramidCuda, ALaunchCanBeRepeated) {
  make({128, 128}, 2);
  for (uint32_t round = 0; round < 3; ++round) {
    const Image canvas = random_canvas({128, 128}, round);
    poison();
    upload(1, canvas);
    build(PyramidLoads::kStaged);
    EXPECT_TRUE(same_levels(stream_, pyramids_.view(), 1, build_pyramid(threads_, canvas)));
  }
}

TEST_F(PyramidCuda, AnUpdateEqualsARebuild) {
  std::mt19937 random(5);
  for (const Size size : {Size{32, 32}, Size{2112, 352}, Size{4128, 224}, Size{320, 1056}}) {
    Image canvas = random_canvas(size, 3);
    make(size, 2);
    poison();
    upload(1, canvas);
    build(PyramidLoads::kDirect);
    const Grid grid = tile_grid(size);
    for (const int count : {1, 2, 5}) {
      std::vector<Tile> tiles(static_cast<size_t>(count));
      for (Tile& tile : tiles)
        tile = {static_cast<int>(random() % static_cast<unsigned>(grid.rows)),
                static_cast<int>(random() % static_cast<unsigned>(grid.cols))};
      for (const Tile& tile : tiles)
        for (int y = 0; y < kTileHeightPx; ++y)
          for (int x = 3 * tile.col * kTileWidthPx;
               x < 3 * std::min(size.width_px, (tile.col + 1) * kTileWidthPx); ++x)
            canvas.row(tile.row * kTileHeightPx + y)[x] = static_cast<uint8_t>(random());
      upload(1, canvas);
      update(1, tiles);
      EXPECT_TRUE(same_levels(stream_, pyramids_.view(), 1, build_pyramid(threads_, canvas)))
          << count << " tiles";
    }
  }
}

// Nothing but what depends on a tile is written: levels that were spoilt elsewhere stay so.
TEST_F(PyramidCuda, AnUpdateTouchesOnlyWhatDependsOnItsTiles) {
  const Size size{4096, 128};
  make(size, 1);
  upload(0, random_canvas(size, 1));
  poison();
  const DevicePyramids view = pyramids_.view();
  update(0, {{3, 1}});
  for (int level = 1; level < view.levels; ++level) {
    std::vector<uint8_t> rgb(static_cast<size_t>(view.image_bytes[level]));
    stream_.download(rgb.data(), view.rgb[level], rgb.size());
    ASSERT_TRUE(stream_.wait());
    const int first_row = 3 * kTileHeightPx >> level;
    const int left_bytes = 3 * (kTileWidthPx >> level) / 12 * 12;  // groups of four pixels
    for (size_t i = 0; i < rgb.size(); ++i) {
      const auto row = static_cast<int>(i / static_cast<size_t>(view.stride_bytes[level]));
      const auto byte = static_cast<int>(i % static_cast<size_t>(view.stride_bytes[level]));
      if (row < first_row || byte < left_bytes) {
        ASSERT_EQ(rgb[i], 0xA5) << "level " << level << ", row " << row << ", byte " << byte;
      }
    }
  }
}

TEST_F(PyramidCuda, TellsWhenMemoryIsShort) {
  PyramidsOnDevice huge;
  const Status made = huge.make({1 << 15, 1 << 15}, 2000);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("MiB"), std::string::npos);
  check_batch({64, 64}, 1);  // the process goes on
}

}  // namespace
}  // namespace fovea
