// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "pyramid/resize.h"

namespace fovea {
namespace {

// The sum of one output value; its taps lie `stride` apart, from `in` on.
uint8_t weigh(const ResizeAxis& axis, int i, const uint8_t* in, int64_t stride) {
  int32_t sum = 1 << (kWeightBits - 1);
  for (int j = 0; j < axis.count[static_cast<size_t>(i)]; ++j)
    sum += axis.weight[static_cast<size_t>(i) * axis.taps + j] * in[j * stride];
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

Image resize_width(const Image& image, int width_px) {
  if (width_px == image.size.width_px) return image;
  const ResizeAxis axis = make_resize_axis(image.size.width_px, width_px);
  Image out({width_px, image.size.height_px});
  for (int y = 0; y < out.size.height_px; ++y)
    for (int x = 0; x < width_px; ++x)
      for (int c = 0; c < 3; ++c)
        out.row(y)[x * 3 + c] =
            weigh(axis, x, image.row(y) + axis.first[static_cast<size_t>(x)] * 3 + c, 3);
  return out;
}

Image resize_height(const Image& image, int height_px) {
  if (height_px == image.size.height_px) return image;
  const ResizeAxis axis = make_resize_axis(image.size.height_px, height_px);
  Image out({image.size.width_px, height_px});
  const int64_t row_bytes = int64_t{image.size.width_px} * 3;
  for (int y = 0; y < height_px; ++y)
    for (int64_t b = 0; b < row_bytes; ++b)
      out.row(y)[b] = weigh(axis, y, image.row(axis.first[static_cast<size_t>(y)]) + b, row_bytes);
  return out;
}

}  // namespace

Image resize_bicubic_reference(const Image& image, Size size) {
  if (vertical_first(image.size, size))
    return resize_width(resize_height(image, size.height_px), size.width_px);
  return resize_height(resize_width(image, size.width_px), size.height_px);
}

}  // namespace fovea
