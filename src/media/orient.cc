// SPDX-License-Identifier: Apache-2.0
#include "media/orient.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace fovea {
namespace {

constexpr int kTilePx = 32;  // 32 rows of 32 px of both pictures stay in the first cache

void swap_pixels(uint8_t* a, uint8_t* b) { std::swap_ranges(a, a + 3, b); }

void mirror_row(uint8_t* row, int width_px) {
  for (int left = 0, right = width_px - 1; left < right; ++left, --right)
    swap_pixels(row + size_t{3} * left, row + size_t{3} * right);
}

void mirror_left_right(Image& image) {
  for (int y = 0; y < image.size.height_px; ++y) mirror_row(image.row(y), image.size.width_px);
}

void mirror_top_bottom(Image& image) {
  const size_t row_bytes = size_t{3} * image.size.width_px;
  for (int top = 0, low = image.size.height_px - 1; top < low; ++top, --low)
    std::swap_ranges(image.row(top), image.row(top) + row_bytes, image.row(low));
}

// out(x, y) = in(y or its mirror, x or its mirror), tile by tile.
Image swap_sides(const Image& in, bool mirror_x, bool mirror_y) {
  Image out(Size{in.size.height_px, in.size.width_px});
  const ptrdiff_t row_bytes = ptrdiff_t{3} * in.size.width_px;
  const ptrdiff_t step_bytes = mirror_y ? -row_bytes : row_bytes;
  const auto copy_tile = [&](int x0, int y0) {
    const int x1 = std::min(x0 + kTilePx, out.size.width_px);
    const int y1 = std::min(y0 + kTilePx, out.size.height_px);
    const uint8_t* first = in.row(mirror_y ? in.size.height_px - 1 - x0 : x0);
    for (int y = y0; y < y1; ++y) {
      const uint8_t* source = first + ptrdiff_t{3} * (mirror_x ? in.size.width_px - 1 - y : y);
      uint8_t* target = out.row(y) + ptrdiff_t{3} * x0;
      for (int x = x0; x < x1; ++x, target += 3)
        std::memcpy(target, source + (x - x0) * step_bytes, 3);
    }
  };
  for (int y = 0; y < out.size.height_px; y += kTilePx)
    for (int x = 0; x < out.size.width_px; x += kTilePx) copy_tile(x, y);
  return out;
}

}  // namespace

Image orient(Image image, int orientation) {
  FOVEA_CHECK(orientation >= 1 && orientation <= 8);
  if (orientation == 2 || orientation == 3) mirror_left_right(image);
  if (orientation == 3 || orientation == 4) mirror_top_bottom(image);
  if (orientation <= 4) return image;
  const bool mirror_x = orientation == 7 || orientation == 8;
  const bool mirror_y = orientation == 6 || orientation == 7;
  return swap_sides(image, mirror_x, mirror_y);
}

}  // namespace fovea
