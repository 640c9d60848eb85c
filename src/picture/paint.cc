// SPDX-License-Identifier: Apache-2.0
#include "picture/paint.h"

#include <algorithm>
#include <cmath>

namespace fovea {

Rect intersect(const Rect& a, const Rect& b) {
  const int x = std::max(a.x_px, b.x_px);
  const int y = std::max(a.y_px, b.y_px);
  return {x, y, std::max(0, std::min(a.right_px(), b.right_px()) - x),
          std::max(0, std::min(a.bottom_px(), b.bottom_px()) - y)};
}

Rect shrink(const Rect& rect, int margin_px) {
  return {rect.x_px + margin_px, rect.y_px + margin_px, rect.width_px - 2 * margin_px,
          rect.height_px - 2 * margin_px};
}

void fill(Image& image, const Rect& rect, Rgb colour, int share) {
  const Rect area = intersect(rect, bounds(image));
  for (int y = area.y_px; y < area.bottom_px(); ++y)
    for (int x = area.x_px; x < area.right_px(); ++x)
      set_pixel(image, x, y, share == 255 ? colour : mix(pixel(image, x, y), colour, share));
}

void outline(Image& image, const Rect& rect, int thick_px, Rgb colour, int share,
             const Rect& clip) {
  const int thick = std::min({thick_px, rect.width_px / 2, rect.height_px / 2});
  if (thick < 1) {  // too small to have an inside
    fill(image, intersect(rect, clip), colour, share);
    return;
  }
  const int inner_height = rect.height_px - 2 * thick;
  const int inner_y = rect.y_px + thick;
  for (const Rect& side : {Rect{rect.x_px, rect.y_px, rect.width_px, thick},
                           Rect{rect.x_px, rect.bottom_px() - thick, rect.width_px, thick},
                           Rect{rect.x_px, inner_y, thick, inner_height},
                           Rect{rect.right_px() - thick, inner_y, thick, inner_height}})
    fill(image, intersect(side, clip), colour, share);
}

void hatch(Image& image, const Rect& rect) {
  const Rect area = intersect(rect, bounds(image));
  for (int y = area.y_px; y < area.bottom_px(); ++y)
    for (int x = area.x_px; x < area.right_px(); ++x) set_pixel(image, x, y, hatched(x, y));
}

void line(Image& image, const Point& from, const Point& to, double thick_px, Rgb colour,
          const Rect& clip) {
  const double reach = thick_px / 2 + 1;
  const Rect area = intersect(clip, bounds(image));
  const auto within = [](double value, int begin, int end) {
    return static_cast<int>(
        std::clamp(value, static_cast<double>(begin), static_cast<double>(end)));
  };
  const int top = within(std::min(from.y_px, to.y_px) - reach, area.y_px, area.bottom_px());
  const int bottom = within(std::max(from.y_px, to.y_px) + reach, area.y_px, area.bottom_px());
  const int left = within(std::min(from.x_px, to.x_px) - reach, area.x_px, area.right_px());
  const int right = within(std::max(from.x_px, to.x_px) + reach, area.x_px, area.right_px());
  const double dx = to.x_px - from.x_px;
  const double dy = to.y_px - from.y_px;
  const double length_squared = dx * dx + dy * dy;
  for (int y = top; y < bottom; ++y) {
    for (int x = left; x < right; ++x) {
      const double px = x + 0.5 - from.x_px;
      const double py = y + 0.5 - from.y_px;
      // How far along the line the nearest of its points lies.
      const double along =
          length_squared > 0 ? std::clamp((px * dx + py * dy) / length_squared, 0.0, 1.0) : 0;
      const double distance = std::hypot(px - along * dx, py - along * dy);
      const int share =
          static_cast<int>(std::lround(255 * std::clamp(thick_px / 2 - distance + 0.5, 0.0, 1.0)));
      if (share > 0) set_pixel(image, x, y, mix(pixel(image, x, y), colour, share));
    }
  }
}

void ring(Image& image, double x, double y, double hole_px, double radius_px, Rgb colour,
          const Rect& clip) {
  const int reach = static_cast<int>(std::ceil(radius_px)) + 1;
  const int left = static_cast<int>(std::floor(x)) - reach;
  const int top = static_cast<int>(std::floor(y)) - reach;
  const Rect area =
      intersect(intersect({left, top, 2 * reach + 1, 2 * reach + 1}, clip), bounds(image));
  for (int row = area.y_px; row < area.bottom_px(); ++row) {
    for (int col = area.x_px; col < area.right_px(); ++col) {
      const double distance = std::hypot(col + 0.5 - x, row + 0.5 - y);
      // Half a pixel on either side of an edge is shared out by distance.
      const double within = std::clamp(radius_px - distance + 0.5, 0.0, 1.0);
      const double beyond = hole_px <= 0 ? 1 : std::clamp(distance - hole_px + 0.5, 0.0, 1.0);
      const int share = static_cast<int>(std::lround(255 * std::min(within, beyond)));
      if (share > 0) set_pixel(image, col, row, mix(pixel(image, col, row), colour, share));
    }
  }
}

}  // namespace fovea
