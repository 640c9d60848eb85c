// SPDX-License-Identifier: Apache-2.0
#include "picture/view.h"

#include <algorithm>

#include "base/check.h"

namespace fovea {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// The canvas pixel under the centre of picture pixel i, when `from` pixels are drawn into `to`.
int under_centre(int64_t i, int64_t from, int64_t to) {
  return static_cast<int>((2 * i + 1) * from / (2 * to));
}

// The first picture pixel whose centre lies at or after canvas pixel c.
int first_at(int64_t c, int64_t from, int64_t to) {
  return static_cast<int>(ceil_div(2 * to * c - from, 2 * from));
}

}  // namespace

int View::canvas_x(int picture_x) const {
  return canvas.x_px + under_centre(picture_x - picture.x_px, canvas.width_px, picture.width_px);
}

int View::canvas_y(int picture_y) const {
  return canvas.y_px + under_centre(picture_y - picture.y_px, canvas.height_px, picture.height_px);
}

Rect View::to_picture(const Rect& area) const {
  const int left = first_at(area.x_px - canvas.x_px, canvas.width_px, picture.width_px);
  const int right = first_at(area.right_px() - canvas.x_px, canvas.width_px, picture.width_px);
  const int top = first_at(area.y_px - canvas.y_px, canvas.height_px, picture.height_px);
  const int bottom = first_at(area.bottom_px() - canvas.y_px, canvas.height_px, picture.height_px);
  return {picture.x_px + left, picture.y_px + top, right - left, bottom - top};
}

Rect area_of(const Cell& cell) {
  const int side = cell.side_px();
  return {cell.col * side, cell.row * side, side, side};
}

Finest find_finest(const Plan& plan, Size canvas) {
  Finest finest;
  finest.grid = grid_at(canvas, 0);
  finest.level.assign(static_cast<size_t>(finest.grid.cells()), -1);
  const int levels = level_count(canvas);
  for (const Cell& cell : plan.cells) {
    const Grid grid = grid_at(canvas, cell.level);
    FOVEA_CHECK(cell.level >= 0 && cell.level < levels && cell.row >= 0 && cell.row < grid.rows &&
                cell.col >= 0 && cell.col < grid.cols);
    const int side = 1 << cell.level;
    const int row_end = std::min((cell.row + 1) * side, finest.grid.rows);
    const int col_end = std::min((cell.col + 1) * side, finest.grid.cols);
    for (int row = cell.row * side; row < row_end; ++row) {
      int8_t* level = finest.level.data() + static_cast<size_t>(row) * finest.grid.cols;
      for (int col = cell.col * side; col < col_end; ++col)
        if (level[col] < 0 || level[col] > cell.level) level[col] = static_cast<int8_t>(cell.level);
    }
  }
  return finest;
}

}  // namespace fovea
