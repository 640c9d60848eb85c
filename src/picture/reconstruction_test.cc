// SPDX-License-Identifier: Apache-2.0
#include "picture/reconstruction_reference.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "picture/picture.h"
#include "picture/test_scenery.h"
#include "picture/view.h"

namespace fovea {
namespace {

using namespace testing_scenery;

// Prints the first pixel that differs by more than `tolerance`.
void expect_same(const Image& seen, const Image& wanted, int tolerance, const std::string& what) {
  ASSERT_EQ(seen.size, wanted.size) << what;
  for (int y = 0; y < seen.size.height_px; ++y)
    for (int i = 0; i < 3 * seen.size.width_px; ++i)
      ASSERT_LE(std::abs(seen.row(y)[i] - wanted.row(y)[i]), tolerance)
          << what << ": x " << i / 3 << " y " << y << " channel " << i % 3;
}

Image level_image(const Pyramid& pyramid, int level) {
  const LevelView view = pyramid.level(level);
  Image image(view.size);
  for (int y = 0; y < view.size.height_px; ++y)
    std::copy_n(view.row(y), 3 * view.size.width_px, image.row(y));
  return image;
}

TEST(Reconstruction, AllLevel0CellsAtCanvasSizeAreTheCanvas) {
  Threads threads(2);
  for (const Size canvas : {Size{32, 32}, Size{256, 256}, Size{352, 96}, Size{32, 640}}) {
    const Image image = noisy_image(canvas, 1);
    const Pyramid pyramid = build_pyramid(threads, image);
    expect_same(draw_reconstruction(threads, pyramid, uniform_plan(canvas, 0), canvas), image, 0,
                "level 0");
  }
}

TEST(Reconstruction, AllCellsOfALevelAtItsSizeAreThatLevel) {
  Threads threads(2);
  const Size canvas{512, 384};  // divides evenly by 2^7, so that the steps are exact
  const Pyramid pyramid = build_pyramid(threads, noisy_image(canvas, 2));
  for (int level = 0; level < pyramid.levels(); ++level)
    expect_same(draw_reconstruction(threads, pyramid, uniform_plan(canvas, level),
                                    pyramid.level(level).size),
                level_image(pyramid, level), 0, "level " + std::to_string(level));
}

TEST(Reconstruction, EqualsTheReferenceForRandomPlansAndSizes) {
  Threads threads(3);
  std::mt19937 random(7);
  for (unsigned round = 0; round < 24; ++round) {
    const Size canvas{32 * (1 + static_cast<int>(random() % 9)),
                      32 * (1 + static_cast<int>(random() % 9))};
    const Size size{1 + static_cast<int>(random() % 130), 1 + static_cast<int>(random() % 130)};
    const Pyramid pyramid = build_pyramid(threads, noisy_image(canvas, round));
    const Plan plan = round % 2 == 0 ? random_quadtree(canvas, round)
                                     : random_cells(canvas, 1 + static_cast<int>(round), round);
    // Sums in float instead of double: a value beside a rounding edge may fall to the other side.
    expect_same(draw_reconstruction(threads, pyramid, plan, size),
                reconstruction_reference(pyramid, plan, size), 1,
                "canvas " + std::to_string(canvas.width_px) + "x" +
                    std::to_string(canvas.height_px) + " round " + std::to_string(round));
  }
}

TEST(Reconstruction, AFlatCanvasStaysFlatUnderAnyPlan) {
  Threads threads(2);
  const Size canvas{416, 288};
  const Rgb colour{201, 7, 94};
  const Pyramid pyramid = build_pyramid(threads, flat_image(canvas, colour));
  for (const Size size : {Size{97, 61}, Size{416, 288}, Size{1001, 777}})
    expect_same(draw_reconstruction(threads, pyramid, random_quadtree(canvas, 3), size),
                flat_image(size, colour), 0, "flat");
}

TEST(Reconstruction, PixelsThePlanDoesNotReadDoNotMatter) {
  Threads threads(2);
  const Size canvas{640, 448};
  const Plan plan = random_cells(canvas, 25, 9);
  const Finest finest = find_finest(plan, canvas);
  const Image image = noisy_image(canvas, 4);
  Image other = image;
  int changed = 0;
  for (int y = 0; y < canvas.height_px; ++y)
    for (int x = 0; x < canvas.width_px; ++x)
      if (finest.at_canvas(x, y) < 0) {
        set_pixel(other, x, y, {static_cast<uint8_t>(x * 7), static_cast<uint8_t>(y * 5), 255});
        ++changed;
      }
  ASSERT_GT(changed, 1000);
  const Pyramid one = build_pyramid(threads, image);
  const Pyramid two = build_pyramid(threads, other);
  for (const Size size : {Size{80, 56}, Size{200, 140}, Size{640, 448}, Size{901, 633}})
    expect_same(draw_reconstruction(threads, two, plan, size),
                draw_reconstruction(threads, one, plan, size), 0,
                "width " + std::to_string(size.width_px));
}

TEST(Reconstruction, PlacesNoCellCoversAreHatched) {
  Threads threads(2);
  const Size canvas{128, 128};
  const Pyramid pyramid = build_pyramid(threads, noisy_image(canvas, 5));
  Plan plan;
  plan.cells = {{0, 1, 2}};
  const Image seen = draw_reconstruction(threads, pyramid, plan, canvas);
  for (int y = 0; y < 128; ++y)
    for (int x = 0; x < 128; ++x) {
      const bool covered = x / 32 == 2 && y / 32 == 1;
      const uint8_t* own = pyramid.level(0).row(y) + 3 * x;
      ASSERT_EQ(pixel(seen, x, y), (covered ? Rgb{own[0], own[1], own[2]} : hatched(x, y)));
    }
  plan.cells.clear();
  const Image nothing = draw_reconstruction(threads, pyramid, plan, {50, 40});
  EXPECT_EQ(pixel(nothing, 49, 39), hatched(49, 39));
}

TEST(Reconstruction, AFineCellLiesOverTheCoarseOneItRepeats) {
  Threads threads(2);
  const Size canvas{256, 256};
  const Pyramid pyramid = build_pyramid(threads, noisy_image(canvas, 6));
  Plan plan = uniform_plan(canvas, 2);
  plan.cells.push_back({0, 3, 5});
  const Image seen = draw_reconstruction(threads, pyramid, plan, canvas);
  const Image coarse = draw_reconstruction(threads, pyramid, uniform_plan(canvas, 2), canvas);
  int different = 0;
  for (int y = 0; y < 256; ++y)
    for (int x = 0; x < 256; ++x) {
      const uint8_t* own = pyramid.level(0).row(y) + 3 * x;
      const Rgb fine{own[0], own[1], own[2]};
      const bool inside = x / 32 == 5 && y / 32 == 3;
      ASSERT_EQ(pixel(seen, x, y), inside ? fine : pixel(coarse, x, y)) << x << " " << y;
      different += pixel(coarse, x, y) != fine;
    }
  EXPECT_GT(different, 256 * 200);  // the two levels can be told apart
}

TEST(Reconstruction, TheSameBitsForAnyNumberOfThreads) {
  const Size canvas{736, 416};
  Threads one(1);
  const Pyramid pyramid = build_pyramid(one, noisy_image(canvas, 8));
  const Plan plan = random_cells(canvas, 60, 2);
  const Image wanted = draw_reconstruction(one, pyramid, plan, {500, 300});
  for (const int count : {2, 5}) {
    Threads threads(count);
    EXPECT_EQ(draw_reconstruction(threads, pyramid, plan, {500, 300}).rgb, wanted.rgb);
  }
}

TEST(View, CellsThatTileTheCanvasTileThePicture) {
  std::mt19937 random(13);
  for (int round = 0; round < 200; ++round) {
    const Size canvas{32 * (1 + static_cast<int>(random() % 40)),
                      32 * (1 + static_cast<int>(random() % 40))};
    const View view{
        {0, 0, canvas.width_px, canvas.height_px},
        {5, 9, 1 + static_cast<int>(random() % 700), 1 + static_cast<int>(random() % 700)}};
    int64_t pixels = 0;
    for (const Cell& cell : random_quadtree(canvas, static_cast<unsigned>(round)).cells) {
      const Rect rect = intersect(view.to_picture(area_of(cell)), view.picture);
      pixels += rect.size().pixels();
      for (int x = rect.x_px; x < rect.right_px() && !rect.empty(); ++x)
        ASSERT_EQ(view.canvas_x(x) / cell.side_px(), cell.col);
      for (int y = rect.y_px; y < rect.bottom_px() && !rect.empty(); ++y)
        ASSERT_EQ(view.canvas_y(y) / cell.side_px(), cell.row);
    }
    ASSERT_EQ(pixels, view.picture.size().pixels()) << round;
  }
}

}  // namespace
}  // namespace fovea
