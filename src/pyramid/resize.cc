// SPDX-License-Identifier: Apache-2.0
#include "pyramid/resize.h"

#include <algorithm>
#include <cmath>

#include "base/buffer.h"
#include "base/check.h"

namespace fovea {
namespace {

constexpr double kSupport = 2.0;  // the cubic is zero from here on

// Keys' cubic with a = -0.5.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < kSupport) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

// Towards zero: half is added before, not rounded to even.
int truncated(double value) { return static_cast<int>(value); }

}  // namespace

ResizeAxis make_resize_axis(int in_px, int out_px) {
  FOVEA_CHECK(in_px >= 1 && out_px >= 1);
  ResizeAxis axis;
  axis.in_px = in_px;
  axis.out_px = out_px;
  const double scale = static_cast<double>(in_px) / out_px;
  const double stretch = std::max(scale, 1.0);
  const double support = kSupport * stretch;
  const auto outputs = static_cast<size_t>(out_px);
  axis.taps = std::min(static_cast<int>(std::ceil(support)) * 2 + 1, in_px);
  axis.first.resize(outputs);
  axis.count.resize(outputs);
  axis.weight.assign(outputs * static_cast<size_t>(axis.taps), 0);

  std::vector<double> exact(static_cast<size_t>(axis.taps));
  for (size_t i = 0; i < outputs; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    const int first = std::max(truncated(centre - support + 0.5), 0);
    const int end = std::min(truncated(centre + support + 0.5), in_px);
    axis.first[i] = first;
    axis.count[i] = std::clamp(end - first, 1, axis.taps);
    const auto count = static_cast<size_t>(axis.count[i]);
    double sum = 0;
    for (size_t j = 0; j < count; ++j) {
      exact[j] = cubic((static_cast<double>(j) + first - centre + 0.5) * (1.0 / stretch));
      sum += exact[j];
    }
    for (size_t j = 0; j < count; ++j) {
      const double scaled = (sum != 0 ? exact[j] / sum : exact[j]) * (1 << kWeightBits);
      axis.weight[i * static_cast<size_t>(axis.taps) + j] =
          truncated(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
  }
  return axis;
}

Image resize_bicubic(Threads& threads, const Image& image, Size size) {
  FOVEA_CHECK(image.size.width_px >= 1 && image.size.height_px >= 1);
  FOVEA_CHECK(size.width_px >= 1 && size.height_px >= 1);
  if (image.size == size) return image;
  Image out;
  out.size = size;
  const size_t bytes = static_cast<size_t>(size.pixels()) * 3;
  out.rgb.reserve(bytes);
  prefer_large_pages(out.rgb.data(), bytes);  // before the zeros touch it
  out.rgb.resize(bytes);
  detail::resize_bicubic_cpu(threads, image, make_resize_axis(image.size.width_px, size.width_px),
                             make_resize_axis(image.size.height_px, size.height_px), out);
  return out;
}

}  // namespace fovea
