// SPDX-License-Identifier: Apache-2.0
// Drawing into an Image. Everything is clipped to the image; `clip` narrows that further.
#pragma once

#include "fovea/words.h"
#include "picture/colour.h"

namespace fovea {

// Whole pixels, from (x, y) to the right and down.
struct Rect {
  int x_px = 0;
  int y_px = 0;
  int width_px = 0;
  int height_px = 0;

  int right_px() const { return x_px + width_px; }
  int bottom_px() const { return y_px + height_px; }
  bool empty() const { return width_px <= 0 || height_px <= 0; }
  Size size() const { return {width_px, height_px}; }
  friend bool operator==(const Rect&, const Rect&) = default;
};

Rect intersect(const Rect& a, const Rect& b);
// The rectangle with `margin_px` taken away on each side.
Rect shrink(const Rect& rect, int margin_px);
inline Rect bounds(const Image& image) { return {0, 0, image.size.width_px, image.size.height_px}; }

inline Rgb pixel(const Image& image, int x, int y) {
  const uint8_t* at = image.row(y) + 3 * x;
  return {at[0], at[1], at[2]};
}
inline void set_pixel(Image& image, int x, int y, Rgb colour) {
  uint8_t* at = image.row(y) + 3 * x;
  at[0] = colour.red;
  at[1] = colour.green;
  at[2] = colour.blue;
}

// `share` is how much of the colour replaces what lies under it, 0..255.
void fill(Image& image, const Rect& rect, Rgb colour, int share = 255);
// The border of `rect`, drawn inside it, `thick_px` wide.
void outline(Image& image, const Rect& rect, int thick_px, Rgb colour, int share, const Rect& clip);
// Diagonal lines: a place nothing is known about.
void hatch(Image& image, const Rect& rect);
inline Rgb hatched(int x, int y) { return (x + y) % 12 < 2 ? Rgb{62, 67, 77} : Rgb{27, 30, 35}; }
// A smooth ring around (x, y); a disc where the hole has radius 0.
void ring(Image& image, double x, double y, double hole_px, double radius_px, Rgb colour,
          const Rect& clip);

// A smooth straight line, `thick_px` wide, between two points of the picture.
void line(Image& image, const Point& from, const Point& to, double thick_px, Rgb colour,
          const Rect& clip);

}  // namespace fovea
