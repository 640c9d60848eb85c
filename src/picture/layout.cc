// SPDX-License-Identifier: Apache-2.0
#include "picture/layout.h"

#include <algorithm>
#include <cmath>

namespace fovea {
namespace {

constexpr double kFoldRatio = 5;        // canvases longer than this are folded
constexpr double kFoldedRatio = 1.7;    // what folding aims at
constexpr int kFoldGapPx = 6;           // between the parts of a folded canvas
constexpr double kStackRatio = 2.4;     // wider ones: large panels under each other
constexpr double kBlockRatio = 0.8;     // taller ones: maps as a block beside the large panels
constexpr double kLineRatio = 0.36;     // still taller ones: all panels side by side
constexpr double kMostMagnified = 2.5;  // small canvases are not blown up beyond this...
constexpr int kLeastPanelPx = 560;      // ...unless there would be no room for text
constexpr int kLeastStackPx = 1160;
constexpr int kLeastBlockPx = 380;
constexpr int kLeastLinePx = 220;
constexpr int kMostHeightPx = 1000;  // of a large panel
constexpr int kScalePx = 14;         // width of the colour bar
constexpr int kScaleGapPx = 16;
constexpr int kScaleRoomPx = 64;  // with its gap and figures
constexpr int kMapShare = 65;     // percent of a large panel's width a map takes at most

// Everything that follows from the canvas alone.
struct Shape {
  Size canvas;
  Folding folding;

  int height_px(int width_px) const { return panel_height_px(canvas, folding, width_px); }
  // The widest panel of at most this width and height.
  int fit_px(int width_px, int most_height_px) const {
    while (width_px > 1 && height_px(width_px) > most_height_px) --width_px;
    return width_px;
  }
  // The width of a large panel.
  int large_px(int most_px, int least_px) const {
    const int across_px = folding.columns ? canvas.width_px * folding.parts : folding.part_px;
    const int magnified_px =
        static_cast<int>(std::min<double>(kMostMagnified * across_px, most_px));
    return fit_px(std::clamp(magnified_px, std::min(least_px, most_px), most_px), kMostHeightPx);
  }
};

// A row of maps with the colour bar behind it; returns the y under it.
int add_row_of_maps(const Shape& shape, int maps, int map_px, int x, int y, Layout& layout) {
  if (maps == 0) return y;
  y += kPanelTitlePx;
  const int height = shape.height_px(map_px);
  for (int i = 0; i < maps; ++i)
    layout.maps.push_back({x + i * (map_px + kGapPx), y, map_px, height});
  layout.scale = {layout.maps.back().right_px() + kScaleGapPx, y, kScalePx, height};
  return y + height;
}

void add_legend_below(int y, int width_px, const LegendHeight& legend_px, Layout& layout) {
  layout.legend = {0, y + kGapPx / 2, width_px, legend_px(width_px)};
}

// Two large panels, side by side or one under the other; legend; a row of maps.
Layout lay_out_rows(const Shape& shape, int maps, bool stacked, const LegendHeight& legend_px) {
  Layout layout;
  const int width = stacked ? shape.large_px(kContentMostPx, kLeastStackPx)
                            : shape.large_px((kContentMostPx - kGapPx) / 2, kLeastPanelPx);
  layout.plan = {0, kPanelTitlePx, width, shape.height_px(width)};
  layout.tower = layout.plan;
  if (stacked) {
    layout.tower.y_px = layout.plan.bottom_px() + kGapPx / 2 + kPanelTitlePx;
  } else {
    layout.tower.x_px = width + kGapPx;
  }
  const int full_px = layout.tower.right_px();
  add_legend_below(layout.tower.bottom_px(), full_px, legend_px, layout);
  const int y = layout.legend.bottom_px() + (maps > 0 ? kGapPx / 2 : 0);
  const int map_px = std::min((full_px - kScaleRoomPx - (maps - 1) * kGapPx) / std::max(maps, 1),
                              (full_px - kGapPx) / 2 * kMapShare / 100);
  layout.size = {full_px, add_row_of_maps(shape, maps, map_px, 0, y, layout)};
  return layout;
}

// Two large panels and a block of maps, two by two, of the same height; the legend takes the place
// of the fourth map where it is free and large enough.
Layout lay_out_block(const Shape& shape, int maps, const LegendHeight& legend_px) {
  Layout layout;
  const int most_px = (kContentMostPx - kScaleRoomPx - 3 * kGapPx) / 3;
  const int width = shape.large_px(most_px, kLeastBlockPx);
  layout.plan = {0, kPanelTitlePx, width, shape.height_px(width)};
  layout.tower = {width + kGapPx, kPanelTitlePx, width, layout.plan.height_px};
  const int x = layout.tower.right_px() + kGapPx;
  const int map_height = (layout.plan.height_px - kPanelTitlePx - kGapPx / 2) / 2;
  const int map_px = shape.fit_px(width / 2, map_height);
  const int step_x = map_px + kGapPx;
  const int step_y = layout.plan.height_px - map_height;
  for (int i = 0; i < maps; ++i)
    layout.maps.push_back(
        {x + i % 2 * step_x, kPanelTitlePx + i / 2 * step_y, map_px, shape.height_px(map_px)});
  int right = layout.tower.right_px();
  if (maps > 0) {
    layout.scale = {x + std::min(maps, 2) * step_x - kGapPx + kScaleGapPx, kPanelTitlePx, kScalePx,
                    layout.maps.back().bottom_px() - kPanelTitlePx};
    right = layout.scale.x_px - kScaleGapPx + kScaleRoomPx;
  }
  layout.size = {right, layout.plan.bottom_px()};
  const Rect slot{x + step_x, kPanelTitlePx + step_y, map_px, legend_px(map_px)};
  if (maps == 3 && slot.height_px <= map_height) {
    layout.legend = slot;
  } else {
    add_legend_below(layout.size.height_px, right, legend_px, layout);
    layout.size.height_px = layout.legend.bottom_px();
  }
  return layout;
}

// All panels side by side.
Layout lay_out_line(const Shape& shape, int maps, const LegendHeight& legend_px) {
  Layout layout;
  const int scale_px = maps > 0 ? kScaleRoomPx : 0;
  const int most_px = (kContentMostPx - scale_px - (maps + 1) * kGapPx) / (maps + 2);
  const int width = shape.large_px(most_px, kLeastLinePx);
  layout.plan = {0, kPanelTitlePx, width, shape.height_px(width)};
  layout.tower = {width + kGapPx, kPanelTitlePx, width, layout.plan.height_px};
  add_row_of_maps(shape, maps, width, 2 * (width + kGapPx), 0, layout);
  const int full_px = (maps + 2) * (width + kGapPx) - kGapPx + scale_px;
  add_legend_below(layout.plan.bottom_px(), full_px, legend_px, layout);
  layout.size = {full_px, layout.legend.bottom_px()};
  return layout;
}

}  // namespace

Folding fold(Size canvas) {
  Folding folding;
  folding.columns = canvas.height_px > canvas.width_px;
  const int longer = std::max(canvas.width_px, canvas.height_px);
  const int shorter = std::min(canvas.width_px, canvas.height_px);
  const double ratio = static_cast<double>(longer) / shorter;
  folding.part_px = longer;
  if (ratio <= kFoldRatio) {
    folding.columns = false;
    folding.part_px = canvas.width_px;
    return folding;
  }
  // k rows of a strip of ratio r make a block of ratio r / k^2 (columns: k^2 / r).
  const double wanted = folding.columns ? ratio * kFoldedRatio : ratio / kFoldedRatio;
  const int parts = std::max(2, static_cast<int>(std::lround(std::sqrt(wanted))));
  folding.part_px = (longer + parts * kCellPx - 1) / (parts * kCellPx) * kCellPx;
  folding.parts = (longer + folding.part_px - 1) / folding.part_px;
  return folding;
}

int panel_height_px(Size canvas, const Folding& folding, int width_px) {
  if (folding.parts > 1 && folding.columns) {
    const int gaps_px = (folding.parts - 1) * kFoldGapPx;
    const double part = static_cast<double>(std::max(width_px - gaps_px, 1)) / folding.parts;
    return std::max(1, static_cast<int>(std::lround(part * folding.part_px / canvas.width_px)));
  }
  const double height = static_cast<double>(width_px) * canvas.height_px / folding.part_px;
  return std::max(1, static_cast<int>(std::lround(height))) * folding.parts +
         (folding.parts - 1) * kFoldGapPx;
}

std::vector<View> fold_views(Size canvas, const Folding& folding, const Rect& panel) {
  std::vector<View> views;
  const int longer = folding.columns ? canvas.height_px : canvas.width_px;
  const int across = folding.columns ? panel.width_px : panel.height_px;
  const int along = folding.columns ? panel.height_px : panel.width_px;
  const double pitch = static_cast<double>(across + kFoldGapPx) / folding.parts;
  for (int i = 0; i < folding.parts; ++i) {
    const int from = i * folding.part_px;
    const int length = std::min(folding.part_px, longer - from);
    const int begin = static_cast<int>(i * pitch);
    const int wide = std::max(static_cast<int>(pitch) - kFoldGapPx, 1);
    const int drawn = std::max(1, static_cast<int>(int64_t{along} * length / folding.part_px));
    if (folding.columns) {
      views.push_back(
          {{0, from, canvas.width_px, length}, {panel.x_px + begin, panel.y_px, wide, drawn}});
    } else {
      views.push_back(
          {{from, 0, length, canvas.height_px}, {panel.x_px, panel.y_px + begin, drawn, wide}});
    }
  }
  return views;
}

Layout lay_out(Size canvas, int maps, const LegendHeight& legend_px) {
  const Shape shape{canvas, fold(canvas)};
  constexpr int kTrialPx = 1000;
  const double ratio = static_cast<double>(kTrialPx) / shape.height_px(kTrialPx);
  Layout layout = ratio < kLineRatio    ? lay_out_line(shape, maps, legend_px)
                  : ratio < kBlockRatio ? lay_out_block(shape, maps, legend_px)
                                        : lay_out_rows(shape, maps, ratio > kStackRatio, legend_px);
  layout.folding = shape.folding;
  return layout;
}

}  // namespace fovea
