// SPDX-License-Identifier: Apache-2.0
// Where a part of the canvas stands in the picture, and how finely the plan reads each place.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/words.h"
#include "picture/paint.h"

namespace fovea {

// A part of the canvas, drawn into a part of the picture. A picture pixel shows what lies under its
// centre, so that cells which tile the canvas tile the picture.
struct View {
  Rect canvas;
  Rect picture;

  // Canvas pixels for each picture pixel.
  double step_x() const { return static_cast<double>(canvas.width_px) / picture.width_px; }
  double step_y() const { return static_cast<double>(canvas.height_px) / picture.height_px; }

  // The canvas pixel under the centre of a picture pixel.
  int canvas_x(int picture_x) const;
  int canvas_y(int picture_y) const;
  // The picture pixels whose centres lie in an area of the canvas; not clipped to the view.
  Rect to_picture(const Rect& area) const;
};

// The canvas pixels of a cell; on the right and lower edge it may hang over the canvas.
Rect area_of(const Cell& cell);

// The finest level at which a plan reads each level-0 cell of the canvas; -1: not at all.
struct Finest {
  Grid grid;
  std::vector<int8_t> level;  // [rows][cols]

  int at(int row, int col) const { return level[static_cast<size_t>(row) * grid.cols + col]; }
  int at_canvas(int x, int y) const { return at(y / kCellPx, x / kCellPx); }
};

Finest find_finest(const Plan& plan, Size canvas);

}  // namespace fovea
