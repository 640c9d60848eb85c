// SPDX-License-Identifier: Apache-2.0
#include "picture/layout.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea {
namespace {

const std::vector<Size> kCanvases{
    {256, 256},   {32, 3648},     {3648, 32},     {768, 512},     {512, 768},
    {1024, 1024}, {4096, 960},    {480, 2112},    {640, 2048},    {25600, 128},
    {96, 19200},  {160, 800},     {800, 160},     {832, 160},     {160, 832},
    {5120, 2880}, {13024, 13024}, {200000, 1024}, {1024, 200000}, {32, 32},
    {1088, 2400}, {1024, 1280},   {1024, 1312},   {1248, 512},    {2400, 1000 / 32 * 32}};

int legend_of(int width_px) { return width_px < 600 ? 150 : 30; }

std::string name(Size canvas, int maps) {
  return std::to_string(canvas.width_px) + "x" + std::to_string(canvas.height_px) + " with " +
         std::to_string(maps) + " maps";
}

TEST(Layout, NothingOverlapsAndEverythingIsInside) {
  for (const Size canvas : kCanvases)
    for (int maps = 0; maps <= 4; ++maps) {
      const Layout layout = lay_out(canvas, maps, legend_of);
      std::vector<Rect> all{layout.plan, layout.tower};
      all.insert(all.end(), layout.maps.begin(), layout.maps.end());
      for (Rect& panel : all) {  // with their titles
        panel.y_px -= kPanelTitlePx;
        panel.height_px += kPanelTitlePx;
      }
      all.push_back(layout.legend);
      if (maps > 0) all.push_back(layout.scale);
      EXPECT_EQ(layout.maps.size(), static_cast<size_t>(maps));
      const Rect whole{0, 0, layout.size.width_px, layout.size.height_px};
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_FALSE(all[i].empty()) << name(canvas, maps) << " part " << i;
        EXPECT_EQ(intersect(all[i], whole), all[i]) << name(canvas, maps) << " part " << i;
        for (size_t j = 0; j < i; ++j)
          EXPECT_TRUE(intersect(all[i], all[j]).empty())
              << name(canvas, maps) << " parts " << j << " and " << i;
      }
    }
}

TEST(Layout, SizesStayWithinLimitsAndLeaveRoomForTitles) {
  for (const Size canvas : kCanvases)
    for (int maps = 0; maps <= 4; ++maps) {
      const Layout layout = lay_out(canvas, maps, legend_of);
      EXPECT_LE(layout.size.width_px, kContentMostPx) << name(canvas, maps);
      EXPECT_LE(layout.size.height_px, 2000) << name(canvas, maps);
      EXPECT_GE(layout.size.width_px, maps < 3 ? 400 : 1000) << name(canvas, maps);
      EXPECT_GE(layout.plan.width_px, 190) << name(canvas, maps);
      for (const Rect& map : layout.maps) EXPECT_GE(map.width_px, 150) << name(canvas, maps);
    }
}

TEST(Layout, ViewsShowEveryCanvasPixelOnceInTheRightShape) {
  for (const Size canvas : kCanvases) {
    const Layout layout = lay_out(canvas, 3, legend_of);
    for (const Rect& panel : {layout.plan, layout.maps[2]}) {
      int64_t shown = 0;
      const std::vector<View> views = fold_views(canvas, layout.folding, panel);
      for (size_t i = 0; i < views.size(); ++i) {
        shown += views[i].canvas.size().pixels();
        EXPECT_EQ(intersect(views[i].picture, panel), views[i].picture) << name(canvas, 3);
        EXPECT_EQ(intersect(views[i].canvas, {0, 0, canvas.width_px, canvas.height_px}),
                  views[i].canvas);
        for (size_t j = 0; j < i; ++j) {
          EXPECT_TRUE(intersect(views[i].canvas, views[j].canvas).empty());
          EXPECT_TRUE(intersect(views[i].picture, views[j].picture).empty());
        }
        // Parts are whole pixels: a thin one may be off by half a pixel and a gap's rounding.
        const int thin = std::min(views[i].picture.width_px, views[i].picture.height_px);
        EXPECT_NEAR(views[i].step_x() / views[i].step_y(), 1, 0.02 + 1.5 / thin) << name(canvas, 3);
      }
      EXPECT_EQ(shown, canvas.pixels()) << name(canvas, 3);
    }
  }
}

TEST(Layout, LongCanvasesAreFoldedSoThatCellsStayVisible) {
  for (const Size canvas : kCanvases) {
    const int longer = std::max(canvas.width_px, canvas.height_px);
    const int shorter = std::min(canvas.width_px, canvas.height_px);
    const Folding folding = fold(canvas);
    EXPECT_EQ(folding.parts > 1, longer > 5 * shorter) << name(canvas, 0);
    const Layout layout = lay_out(canvas, 3, legend_of);
    // The short side of the canvas is never drawn thinner than 24 px.
    const View view = fold_views(canvas, layout.folding, layout.plan).front();
    EXPECT_GE(std::min(view.picture.width_px, view.picture.height_px), 24) << name(canvas, 0);
  }
}

}  // namespace
}  // namespace fovea
