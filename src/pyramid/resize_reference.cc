// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "pyramid/resize.h"

namespace fovea {
namespace {

// The sum of one output value; its taps lie `stride` apart, from `in` on.
uint8_t weigh(const ResizeAxis& axis, int i, const uint8_t* in, int64_t stride) {
  int32_t sum = 1 << (axis.precision_bits - 1);
  for (int j = 0; j < axis.count[static_cast<size_t>(i)]; ++j)
    sum += axis.weight[static_cast<size_t>(i) * axis.taps + j] * in[j * stride];
  return static_cast<uint8_t>(std::clamp(sum >> axis.precision_bits, 0, 255));
}

}  // namespace

Image resize_bicubic_reference(const Image& image, Size size) {
  Image wide = image;
  if (size.width_px != image.size.width_px) {
    const ResizeAxis axis = make_resize_axis(image.size.width_px, size.width_px);
    wide = Image({size.width_px, image.size.height_px});
    for (int y = 0; y < wide.size.height_px; ++y)
      for (int x = 0; x < wide.size.width_px; ++x)
        for (int c = 0; c < 3; ++c)
          wide.row(y)[x * 3 + c] =
              weigh(axis, x, image.row(y) + axis.first[static_cast<size_t>(x)] * 3 + c, 3);
  }
  if (size.height_px == image.size.height_px) return wide;
  const ResizeAxis axis = make_resize_axis(image.size.height_px, size.height_px);
  Image out(size);
  const int64_t row_bytes = int64_t{size.width_px} * 3;
  for (int y = 0; y < size.height_px; ++y)
    for (int64_t b = 0; b < row_bytes; ++b)
      out.row(y)[b] = weigh(axis, y, wide.row(axis.first[static_cast<size_t>(y)]) + b, row_bytes);
  return out;
}

}  // namespace fovea
