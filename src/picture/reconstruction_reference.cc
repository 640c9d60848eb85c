// SPDX-License-Identifier: Apache-2.0
#include "picture/reconstruction_reference.h"

#include <algorithm>
#include <cmath>

#include "picture/view.h"

namespace fovea {
namespace {

// Catmull-Rom, widened when the picture has fewer pixels than the level.
double kernel(double distance, double step) {
  const double x = std::abs(distance) / std::max(1.0, step);
  if (x >= 2) return 0;
  return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
}

// Whether every canvas pixel under pixel (x, y) of `level` is read at that level or finer.
bool plan_knows(const Finest& finest, Size canvas, int x, int y, int level) {
  for (int v = y << level; v < std::min((y + 1) << level, canvas.height_px); ++v)
    for (int u = x << level; u < std::min((x + 1) << level, canvas.width_px); ++u)
      if (finest.at_canvas(u, v) < 0 || finest.at_canvas(u, v) > level) return false;
  return true;
}

// The pixels of `level` that the cell of `cell_level` at canvas pixel (u, v) holds.
Rect own_pixels(int u, int v, int cell_level, int level, Size level_size) {
  const int side = kCellPx << cell_level;
  const int x = u / side * side >> level;
  const int y = v / side * side >> level;
  const int pixels = std::max(side >> level, 1);
  return intersect({x, y, pixels, pixels}, {0, 0, level_size.width_px, level_size.height_px});
}

}  // namespace

Image reconstruction_reference(const Pyramid& pyramid, const Plan& plan, Size size) {
  Image image(size);
  const Size canvas = pyramid.canvas();
  const Finest finest = find_finest(plan, canvas);
  const View view{{0, 0, canvas.width_px, canvas.height_px}, bounds(image)};
  const double canvas_step = std::max(view.step_x(), view.step_y());
  for (int y = 0; y < size.height_px; ++y) {
    for (int x = 0; x < size.width_px; ++x) {
      const int u = view.canvas_x(x);
      const int v = view.canvas_y(y);
      const int cell_level = finest.at_canvas(u, v);
      set_pixel(image, x, y, hatched(x, y));
      if (cell_level < 0) continue;
      int level = cell_level;  // or the coarsest that has a pixel for each pixel of the picture
      while (level + 1 < pyramid.levels() && 2 << level <= canvas_step) ++level;
      const LevelView from = pyramid.level(level);
      const Rect own = own_pixels(u, v, cell_level, level, from.size);
      const double step_x = std::ldexp(view.step_x(), -level);
      const double step_y = std::ldexp(view.step_y(), -level);
      const double at_x = (x + 0.5) * step_x - 0.5;
      const double at_y = (y + 0.5) * step_y - 0.5;
      const int reach_x = static_cast<int>(2 * std::max(1.0, step_x)) + 2;
      const int reach_y = static_cast<int>(2 * std::max(1.0, step_y)) + 2;
      double sum[4] = {0, 0, 0, 0};
      for (int j = static_cast<int>(at_y) - reach_y; j <= at_y + reach_y; ++j) {
        for (int i = static_cast<int>(at_x) - reach_x; i <= at_x + reach_x; ++i) {
          const double weight = kernel(i - at_x, step_x) * kernel(j - at_y, step_y);
          int px = std::clamp(i, 0, from.size.width_px - 1);
          int py = std::clamp(j, 0, from.size.height_px - 1);
          if (!plan_knows(finest, canvas, px, py, level)) {
            px = std::clamp(px, own.x_px, own.right_px() - 1);
            py = std::clamp(py, own.y_px, own.bottom_px() - 1);
          }
          for (int c = 0; c < 3; ++c) sum[c] += weight * from.row(py)[3 * px + c];
          sum[3] += weight;
        }
      }
      for (int c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] =
            static_cast<uint8_t>(std::clamp(sum[c] / sum[3] + 0.5, 0.0, 255.0));
    }
  }
  return image;
}

}  // namespace fovea
