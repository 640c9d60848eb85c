// SPDX-License-Identifier: Apache-2.0
#include "picture/picture.h"

#include <gtest/gtest.h>

#include <array>

#include "picture/layout.h"
#include "picture/legend.h"
#include "picture/panels.h"
#include "picture/test_scenery.h"

namespace fovea {
namespace {

using namespace testing_scenery;

View whole_view(Size canvas) {
  const Rect rect{0, 0, canvas.width_px, canvas.height_px};
  return {rect, rect};
}

// A picture of `image` as the canvas, with texts of any length.
Image picture_of(Threads& threads, Image image, const Plan& plan, bool coupling,
                 const std::string& text, std::vector<Point> fixations = {}) {
  const Size canvas = image.size;
  const Pyramid pyramid = build_pyramid(threads, std::move(image));
  const Relevance relevance = random_relevance(canvas, coupling, 5);
  Scenery scenery;
  scenery.pyramid = &pyramid;
  scenery.relevance = &relevance;
  scenery.plan = &plan;
  scenery.fixations = std::move(fixations);
  scenery.image = canvas;
  scenery.title = text;
  scenery.question = text;
  scenery.caption = text;
  return draw_picture(threads, scenery);
}

TEST(Picture, EveryShapeOfCanvasStaysWithinTheSizeLimits) {
  Threads threads(2);
  std::string wordy;
  for (int i = 0; i < 400; ++i) wordy += "word" + std::to_string(i) + " · ";
  for (const Size canvas : {Size{256, 256}, Size{3648, 32}, Size{32, 3648}, Size{32, 32},
                            Size{6400, 32}, Size{32, 6400}, Size{768, 512}, Size{512, 768},
                            Size{480, 1056}, Size{320, 1440}, Size{2080, 480}}) {
    SCOPED_TRACE(std::to_string(canvas.width_px) + "x" + std::to_string(canvas.height_px));
    const bool coupling = canvas.width_px < canvas.height_px || canvas.width_px == 256;
    const Image seen = picture_of(threads, noisy_image(canvas, 1), random_quadtree(canvas, 1),
                                  coupling, wordy, {{1, 1}, {31, 31}});
    EXPECT_LE(seen.size.width_px, kPictureMostWidthPx);
    EXPECT_LE(seen.size.height_px, kPictureMostHeightPx);
    EXPECT_GE(seen.size.width_px, 600);
    EXPECT_EQ(seen.rgb.size(), static_cast<size_t>(seen.size.pixels()) * 3);
  }
}

TEST(Picture, AScanPathJoinsTheFixationsInTheirOrder) {
  constexpr Size kCanvas{320, 256};
  const View view = whole_view(kCanvas);
  Image image(kCanvas);
  const std::vector<Point> path = {{40, 40}, {280, 40}, {280, 200}};
  draw_scan_path(path, {&view, 1}, image);
  for (const auto& [x, y] : {std::pair{100, 40}, {200, 40}, {280, 100}, {280, 180}})
    EXPECT_GT(pixel(image, x, y).red, 200) << x << "," << y;
  for (const auto& [x, y] : {std::pair{100, 60}, {160, 120}, {40, 200}, {300, 100}, {10, 40}})
    EXPECT_EQ(pixel(image, x, y).red, 0) << x << "," << y;
  Image none(kCanvas);
  draw_scan_path({path.data(), 1}, {&view, 1}, none);
  draw_scan_path({}, {&view, 1}, none);
  EXPECT_EQ(none.rgb, Image(kCanvas).rgb);
}

TEST(Picture, ExtremePlansAndTextsAreDrawn) {
  Threads threads(2);
  const Size canvas{512, 512};
  const std::string broken = "\xFF\xC3 \xF0\x9F\x98\x80 漢字 \n\t tail";
  for (const Plan& plan : {uniform_plan(canvas, 4), uniform_plan(canvas, 0), Plan{},
                           random_cells(canvas, 1, 3), random_cells(canvas, 500, 4)})
    EXPECT_GT(picture_of(threads, noisy_image(canvas, 2), plan, true, broken).size.pixels(), 0);
  // 16,384 cells, and fixations outside the canvas
  const Size large{4096, 4096};
  EXPECT_GT(picture_of(threads, flat_image(large, {90, 120, 30}), uniform_plan(large, 0), false, "",
                       {{-5, 9000}, {4095.9, 4095.9}, {0, 0}})
                .size.pixels(),
            0);
}

TEST(Picture, TheSameBitsForAnyNumberOfThreads) {
  const Size canvas{736, 416};
  const Plan plan = random_quadtree(canvas, 6);
  Threads one(1);
  const Image wanted = picture_of(one, noisy_image(canvas, 3), plan, true, "same", {{100, 50}});
  for (const int count : {2, 5}) {
    Threads threads(count);
    EXPECT_EQ(picture_of(threads, noisy_image(canvas, 3), plan, true, "same", {{100, 50}}).rgb,
              wanted.rgb)
        << count << " threads";
  }
}

TEST(Picture, OneFullMapPanelForEachMapThatIsPresent) {
  Threads threads(2);
  const Size canvas{768, 512};
  const Pyramid pyramid = build_pyramid(threads, flat_image(canvas, {128, 128, 128}));
  const Plan plan = uniform_plan(canvas, 2);
  const Map full(grid_at(canvas, 0), 65535);
  for (int maps = 0; maps <= 4; ++maps) {
    Relevance relevance;
    const std::array slots{&relevance.relevance, &relevance.information, &relevance.salience,
                           &relevance.coupling};
    for (int i = 0; i < maps; ++i) *slots[static_cast<size_t>(i)] = full;
    Scenery scenery;
    scenery.pyramid = &pyramid;
    scenery.relevance = maps == 0 ? nullptr : &relevance;
    scenery.plan = &plan;
    scenery.image = canvas;
    const Image seen = draw_picture(threads, scenery);
    // A flat photo has no relief, so a full map is one colour: that of score 1.
    const Rgb hottest = rgb_of(heat(1));
    int64_t hot = 0;
    for (int y = 0; y < seen.size.height_px; ++y)
      for (int x = 0; x < seen.size.width_px; ++x) hot += pixel(seen, x, y) == hottest;
    Font font;
    const Legend legend(plan, find_finest(plan, canvas), font);
    const Layout layout = lay_out(canvas, maps, [&](int w) { return legend.height_px(w); });
    int64_t wanted = layout.scale.width_px;  // the upper end of the colour bar
    for (const Rect& map : layout.maps) wanted += map.size().pixels();
    EXPECT_EQ(hot, wanted) << maps << " maps";
  }
}

TEST(Picture, QuestionAndCaptionAreSeen) {
  Threads threads(2);
  const Size canvas{256, 256};
  const Plan plan = uniform_plan(canvas, 1);
  const Image without = picture_of(threads, noisy_image(canvas, 1), plan, false, "");
  const Image with = picture_of(threads, noisy_image(canvas, 1), plan, false, "seen");
  EXPECT_GT(with.size.height_px, without.size.height_px + 40);  // a line each
  int question = 0;
  for (int y = 0; y < with.size.height_px; ++y)
    for (int x = 0; x < with.size.width_px; ++x) question += pixel(with, x, y) == ink::kQuestion;
  EXPECT_GT(question, 20);
}

TEST(Picture, ALargeCanvasIsDrawnFromItsCoarserLevelsAlone) {
  Threads threads(2);
  const Size canvas{2048, 2048};  // more than two canvas pixels for each picture pixel
  const Image image = noisy_image(canvas, 1);
  Image mirrored = image;  // inside each block of 2x2: level 0 differs, the levels above do not
  for (int y = 0; y < canvas.height_px; ++y)
    for (int x = 0; x < canvas.width_px; ++x) set_pixel(mirrored, x, y, pixel(image, x ^ 1, y ^ 1));
  const Plan plan = random_quadtree(canvas, 2);
  EXPECT_EQ(picture_of(threads, std::move(mirrored), plan, false, "").rgb,
            picture_of(threads, image, plan, false, "").rgb);
}

TEST(PlanPanel, TheBorderOfEveryCellHasTheColourOfItsLevel) {
  Threads threads(2);
  const Size canvas{768, 512};
  const Pyramid pyramid = build_pyramid(threads, noisy_image(canvas, 4));
  const Plan plan = random_quadtree(canvas, 3);
  ASSERT_GT(plan.tokens(), 20);
  const std::array views{whole_view(canvas)};
  Image seen(canvas);
  draw_plan_panel(threads, pyramid, plan, find_finest(plan, canvas), views, seen);
  for (const Cell& cell : plan.cells) {
    const Rect rect = intersect(area_of(cell), bounds(seen));
    const Rgb wanted = level_colour(cell.level);
    for (int x = rect.x_px; x < rect.right_px(); ++x) {
      ASSERT_EQ(pixel(seen, x, rect.y_px), wanted);
      ASSERT_EQ(pixel(seen, x, rect.bottom_px() - 1), wanted);
    }
    for (int y = rect.y_px; y < rect.bottom_px(); ++y) {
      ASSERT_EQ(pixel(seen, rect.x_px, y), wanted);
      ASSERT_EQ(pixel(seen, rect.right_px() - 1, y), wanted);
    }
  }
}

TEST(PlanPanel, InsideTheFinestCellsThePhotoIsUntouchedAndCoarseOnesAreDarker) {
  Threads threads(2);
  const Size canvas{512, 512};
  const Image photo = noisy_image(canvas, 4);
  const Pyramid pyramid = build_pyramid(threads, photo);
  const Plan plan = random_quadtree(canvas, 8);
  const Finest finest = find_finest(plan, canvas);
  const std::array views{whole_view(canvas)};
  Image seen(canvas);
  draw_plan_panel(threads, pyramid, plan, finest, views, seen);
  std::array<int, 2> checked{};
  for (const Cell& cell : plan.cells) {
    const Rect inside = shrink(intersect(area_of(cell), bounds(seen)), 1);
    for (int y = inside.y_px; y < inside.bottom_px(); ++y)
      for (int x = inside.x_px; x < inside.right_px(); ++x) {
        const double before = oklab_of(pixel(photo, x, y)).lightness;
        const double after = oklab_of(pixel(seen, x, y)).lightness;
        if (cell.level == 0) {
          ASSERT_EQ(pixel(seen, x, y), pixel(photo, x, y));
        } else if (before > 0.3) {
          ASSERT_LT(after, before);
        }
        ++checked[cell.level == 0 ? 0 : 1];
      }
  }
  EXPECT_GT(checked[0], 1000);
  EXPECT_GT(checked[1], 1000);
}

TEST(MapPanel, TheCentreOfACellHasTheColourOfItsScore) {
  Threads threads(2);
  const Size canvas{320, 224};
  const Pyramid pyramid = build_pyramid(threads, flat_image(canvas, {60, 60, 60}));
  const View view{{0, 0, 320, 224}, {0, 0, 330, 231}};  // 33 px a cell: a pixel on each centre
  const std::array views{view};
  const Relief relief = make_relief(threads, pyramid, views, view.picture);
  const Map map = random_map(grid_at(canvas, 0), 2);
  Image seen({330, 231});
  draw_map_panel(threads, map, canvas, relief, views, view.picture, seen);
  for (int row = 0; row < map.grid.rows; ++row)
    for (int col = 0; col < map.grid.cols; ++col)
      EXPECT_EQ(pixel(seen, 33 * col + 16, 33 * row + 16),
                rgb_of(heat(std::round(map.at(row, col) / 257.0) / 255)));
}

TEST(MapPanel, TheReliefDoesNotShiftTheMeanLightness) {
  Threads threads(2);
  const Size canvas{512, 384};
  const Pyramid pyramid = build_pyramid(threads, noisy_image(canvas, 9));
  const std::array views{whole_view(canvas)};
  const Relief relief = make_relief(threads, pyramid, views, views[0].picture);
  double sum = 0;
  int reached = 0;
  for (const uint8_t light : relief.light) {
    sum += light - kReliefFlat;
    reached = std::max(reached, std::abs(light - kReliefFlat));
  }
  EXPECT_NEAR(sum / static_cast<double>(relief.light.size()), 0, 0.5);
  EXPECT_GT(reached, 5);  // there is a relief at all
}

TEST(Fixations, MarkOnlyTheirPlaceAndLeaveItsMiddleOpen) {
  Font font;
  const Size canvas{300, 200};
  const std::array views{whole_view(canvas)};
  const Image before = flat_image(canvas, {40, 90, 60});
  Image seen = before;
  const std::array fixations{Point{100, 80}, Point{299, 0}};
  draw_fixations(fixations, views, font, seen);
  EXPECT_EQ(pixel(seen, 100, 80), pixel(before, 100, 80));
  EXPECT_EQ(pixel(seen, 110, 80), ink::kText);
  for (int y = 0; y < 200; ++y)
    for (int x = 0; x < 300; ++x) {
      const bool near_one = std::hypot(x - 100, y - 80) < 45 || std::hypot(x - 299, y) < 45;
      if (!near_one) {
        ASSERT_EQ(pixel(seen, x, y), pixel(before, x, y));
      }
    }
}

TEST(Grouped, NumbersHaveACommaEveryThreeDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1024), "1,024");
  EXPECT_EQ(grouped(178956970), "178,956,970");
}

}  // namespace
}  // namespace fovea
