// SPDX-License-Identifier: Apache-2.0
#include "picture/panels.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "picture/resample.h"

namespace fovea {
namespace {

constexpr int kRowsAtOnce = 16;
constexpr Rgb kShade{10, 11, 13};  // behind marks on the photo

int gray_of(Rgb c) { return (c.red * 77 + c.green * 150 + c.blue * 29 + 128) >> 8; }

// How a place read `coarser` levels above the plan's finest is shown: of 255.
struct Dimming {
  int light;
  int gray;
};

Dimming dimming(int coarser) {
  return {std::max(255 - 32 * coarser, 150), std::min(36 * coarser, 120)};
}
constexpr Dimming kUncovered{64, 220};

Rgb dim(Rgb colour, const Dimming& how) {
  const auto gray = static_cast<uint8_t>(gray_of(colour));
  return mix(Rgb{}, mix(colour, {gray, gray, gray}, how.gray), how.light);
}

int finest_level(const Plan& plan) {
  int level = 0;
  bool first = true;
  for (const Cell& cell : plan.cells) {
    level = first ? cell.level : std::min(level, cell.level);
    first = false;
  }
  return level;
}

// How strongly borders are drawn: fully, until they would hide more than a seventh of the photo.
int border_share(const Plan& plan, const Pyramid& pyramid, const View& view) {
  constexpr double kMostHidden = 1.0 / 7;
  constexpr double kFaintest = 48;
  double hidden = 0;  // picture pixels
  for (const Cell& cell : plan.cells) {
    const double width = cell.side_px() / view.step_x();
    const double height = cell.side_px() / view.step_y();
    hidden += std::min(2 * (width + height), width * height);
  }
  const double pixels =
      static_cast<double>(pyramid.canvas().pixels()) / view.step_x() / view.step_y();
  return static_cast<int>(std::clamp(255 * kMostHidden * pixels / (hidden + 1), kFaintest, 255.0));
}

void draw_borders(const Plan& plan, Size canvas, const View& view, int share, Image& image) {
  const Rect whole{0, 0, canvas.width_px, canvas.height_px};
  for (const Cell& cell : plan.cells) {
    const Rect rect = view.to_picture(intersect(area_of(cell), whole));
    if (intersect(rect, view.picture).empty()) continue;
    outline(image, rect, 1, level_colour(cell.level), share, view.picture);
  }
}

// A figure beside a fixation, on the side where there is room.
void draw_tag(int number, double x, double y, int away_px, const Rect& room, Font& font,
              Image& image) {
  constexpr int kFigurePx = 14;
  const std::u32string figure = decode_utf8(std::to_string(number));
  const int width = font.width_px(figure, kFigurePx) + 8;
  const int height = font.line_px(kFigurePx);
  Rect tag{static_cast<int>(x) + away_px, static_cast<int>(y) - away_px - height, width, height};
  if (tag.right_px() > room.right_px()) tag.x_px = static_cast<int>(x) - away_px - width;
  if (tag.y_px < room.y_px) tag.y_px = static_cast<int>(y) + away_px;
  fill(image, tag, kShade, 200);
  font.draw(image, tag.x_px + 4, tag.y_px, figure, kFigurePx, ink::kText);
}

}  // namespace

void draw_plan_panel(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                     const Finest& finest, std::span<const View> views, Image& image) {
  const int sharpest = finest_level(plan);
  for (const View& view : views) {
    draw_photo(threads, pyramid, view, level_for(view, pyramid.levels()), image);
    threads.for_each(view.picture.height_px, kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (int y = view.picture.y_px + static_cast<int>(begin); y < view.picture.y_px + end; ++y) {
        const int canvas_y = view.canvas_y(y);
        for (int x = view.picture.x_px; x < view.picture.right_px(); ++x) {
          const int level = finest.at_canvas(view.canvas_x(x), canvas_y);
          const Dimming how = level < 0 ? kUncovered : dimming(level - sharpest);
          set_pixel(image, x, y, dim(pixel(image, x, y), how));
        }
      }
    });
    draw_borders(plan, pyramid.canvas(), view, border_share(plan, pyramid, view), image);
  }
}

void draw_scan_path(std::span<const Point> fixations, std::span<const View> views, Image& image) {
  for (const View& view : views) {
    const auto place = [&](const Point& point) {
      return Point{view.picture.x_px + (point.x_px - view.canvas.x_px) / view.step_x(),
                   view.picture.y_px + (point.y_px - view.canvas.y_px) / view.step_y()};
    };
    for (const auto& [thick_px, colour] : {std::pair{4.0, kShade}, {1.8, ink::kText}})
      for (size_t i = 1; i < fixations.size(); ++i)
        line(image, place(fixations[i - 1]), place(fixations[i]), thick_px, colour, view.picture);
  }
}

void draw_fixations(std::span<const Point> fixations, std::span<const View> views, Font& font,
                    Image& image) {
  constexpr size_t kMostNumbered = 24;
  constexpr int kHolePx = 9;
  const bool numbered = fixations.size() > 1 && fixations.size() <= kMostNumbered;
  for (size_t i = fixations.size(); i-- > 0;) {  // the first lies on top
    const auto [x, y] = fixations[i];
    for (const View& view : views) {
      const Rect& part = view.canvas;
      if (x < part.x_px || x >= part.right_px() || y < part.y_px || y >= part.bottom_px()) continue;
      const double at_x = view.picture.x_px + (x - part.x_px) / view.step_x();
      const double at_y = view.picture.y_px + (y - part.y_px) / view.step_y();
      ring(image, at_x, at_y, kHolePx - 1.5, kHolePx + 4, kShade, view.picture);
      ring(image, at_x, at_y, kHolePx, kHolePx + 2.5, ink::kText, view.picture);
      if (numbered)
        draw_tag(static_cast<int>(i) + 1, at_x, at_y, kHolePx, view.picture, font, image);
    }
  }
}

void draw_tower_panel(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                      const Finest& finest, std::span<const View> views, Image& image) {
  for (const View& view : views) {
    hatch(image, view.picture);
    draw_cells(threads, pyramid, view, plan.cells, finest, image);
  }
}

}  // namespace fovea
