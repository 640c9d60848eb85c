// SPDX-License-Identifier: Apache-2.0
#include "pyramid/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "media/decode.h"
#include "pyramid/resize.h"

namespace fovea {
namespace {

constexpr int kMaxSidePx = 1 << 30;  // rounding up to a multiple of 32 stays within int

// Python's round(): halves go to the even neighbour, whatever the rounding mode.
int64_t round_to_even(double value) {
  const double floor = std::floor(value);
  const double rest = value - floor;
  const auto lower = static_cast<int64_t>(floor);
  if (rest > 0.5 || (rest == 0.5 && lower % 2 != 0)) return lower + 1;
  return lower;
}

}  // namespace

// Every operation is smart_resize's own, in its order and in double, so that the same sizes come
// out where a quotient falls on the border of two.
Result<Size> canvas_size(Size image, const CanvasLimits& limits) {
  const int longer = std::max(image.width_px, image.height_px);
  const int shorter = std::min(image.width_px, image.height_px);
  if (shorter < 1 || longer > kMaxSidePx)
    return bad_input(fmt::format("cannot make a canvas of a {}x{} px image: sides must be 1..{} px",
                                 image.width_px, image.height_px, kMaxSidePx));
  if (longer > int64_t{kMaxSideRatio} * shorter)
    return bad_input(
        fmt::format("cannot make a canvas of a {}x{} px image: its side ratio is {:.1f} and may be "
                    "at most {}; crop it or cut it into pieces",
                    image.width_px, image.height_px, double(longer) / shorter, kMaxSideRatio));

  const double width = image.width_px;
  const double height = image.height_px;
  int64_t canvas_width = round_to_even(width / kCellPx) * kCellPx;
  int64_t canvas_height = round_to_even(height / kCellPx) * kCellPx;
  const auto pixels = static_cast<double>(image.pixels());
  if (canvas_width * canvas_height > limits.max_pixels) {
    const double beta = std::sqrt(pixels / static_cast<double>(limits.max_pixels));
    const auto shrink = [beta](double side) {
      return std::max<int64_t>(1, static_cast<int64_t>(std::floor(side / beta / kCellPx))) *
             kCellPx;
    };
    canvas_width = shrink(width);
    canvas_height = shrink(height);
  } else if (canvas_width * canvas_height < limits.min_pixels) {
    const double beta = std::sqrt(static_cast<double>(limits.min_pixels) / pixels);
    const auto grow = [beta](double side) {
      return static_cast<int64_t>(std::ceil(side * beta / kCellPx)) * kCellPx;
    };
    canvas_width = grow(width);
    canvas_height = grow(height);
  }
  return Size{static_cast<int>(canvas_width), static_cast<int>(canvas_height)};
}

Image fit_canvas(Threads& threads, Image image, Size canvas) {
  if (image.size == canvas) return image;
  return resize_bicubic(threads, image, canvas);
}

}  // namespace fovea
