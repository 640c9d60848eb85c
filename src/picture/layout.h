// SPDX-License-Identifier: Apache-2.0
// Where the panels of the picture stand, for canvases of any shape.
#pragma once

#include <functional>
#include <vector>

#include "fovea/words.h"
#include "picture/view.h"

namespace fovea {

inline constexpr int kMarginPx = 40;
inline constexpr int kGapPx = 24;         // between panels
inline constexpr int kPanelTitlePx = 36;  // above each panel
inline constexpr int kContentMostPx = 1840;

// A canvas far from square is cut into parts of equal length that stand under each other, like the
// lines of a text (a tall one: side by side, like columns), so that its cells are large enough to
// be seen.
struct Folding {
  int parts = 1;
  bool columns = false;  // the parts of a tall canvas stand side by side
  int part_px = 0;       // canvas pixels along the long side of a part; the last may have fewer
};

Folding fold(Size canvas);
// The height of a panel of this width that shows the folded canvas.
int panel_height_px(Size canvas, const Folding& folding, int width_px);
// What of the canvas stands where in the panel.
std::vector<View> fold_views(Size canvas, const Folding& folding, const Rect& panel);

// Rectangles are relative to the upper left corner of the panels' part of the picture.
struct Layout {
  Folding folding;
  Size size;  // of everything below, the titles above the panels included
  Rect plan;
  Rect tower;
  std::vector<Rect> maps;
  Rect scale;   // the colour bar beside the maps; empty without maps
  Rect legend;  // where the levels are named
};

// The height the legend takes at a width.
using LegendHeight = std::function<int(int width_px)>;

// Chooses by the shape of the folded canvas: two large panels over a row of maps; for wide ones the
// large panels under each other; for tall ones the maps beside them.
Layout lay_out(Size canvas, int maps, const LegendHeight& legend_px);

}  // namespace fovea
