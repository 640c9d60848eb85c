// SPDX-License-Identifier: Apache-2.0
// Norms: a row is read three times (twice for rms_norm), all but the first from the nearest cache.
#include "ops/norm_cpu.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Sums over a row of x - center and of its square.
struct Sums {
  float off = 0;
  float squares = 0;
};

// In two vectors each, since an addition takes several cycles.
HWY_INLINE Sums SumsAround(float center, const float* HWY_RESTRICT x, int64_t cols) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V middle = hn::Set(d, center);
  V off0 = hn::Zero(d);
  V off1 = off0;
  V squares0 = off0;
  V squares1 = off0;
  int64_t c = 0;
  for (; c + 2 * lanes <= cols; c += 2 * lanes) {
    const V x0 = hn::Sub(hn::LoadU(d, x + c), middle);
    const V x1 = hn::Sub(hn::LoadU(d, x + c + lanes), middle);
    off0 = hn::Add(off0, x0);
    off1 = hn::Add(off1, x1);
    squares0 = hn::MulAdd(x0, x0, squares0);
    squares1 = hn::MulAdd(x1, x1, squares1);
  }
  Sums rest;
  for (; c < cols; ++c) {
    rest.off += x[c] - center;
    rest.squares += (x[c] - center) * (x[c] - center);
  }
  return {rest.off + hn::GetLane(hn::SumOfLanes(d, hn::Add(off0, off1))),
          rest.squares + hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1)))};
}

void LayerNorm(const float* x, int64_t rows, int64_t cols, const float* HWY_RESTRICT weight,
               const float* HWY_RESTRICT bias, float eps, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, x += cols, y += cols) {
    // What rounding left out of the mean shows in the second sums, and is put right.
    const float nearly = SumsAround(0, x, cols).off / static_cast<float>(cols);
    const Sums around = SumsAround(nearly, x, cols);
    const float correction = around.off / static_cast<float>(cols);
    const float mean = nearly + correction;
    const float variance = around.squares / static_cast<float>(cols) - correction * correction;
    const float factor = 1 / std::sqrt(std::max(0.0f, variance) + eps);
    const V by = hn::Set(d, factor);
    const V middle = hn::Set(d, mean);
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) {
      const V scaled = hn::Mul(hn::Sub(hn::LoadU(d, x + c), middle), by);
      hn::StoreU(hn::MulAdd(scaled, hn::LoadU(d, weight + c), hn::LoadU(d, bias + c)), d, y + c);
    }
    for (; c < cols; ++c) y[c] = (x[c] - mean) * factor * weight[c] + bias[c];
  }
}

void RmsNorm(const float* x, int64_t x_stride, int64_t rows, int64_t groups, int64_t cols,
             const float* HWY_RESTRICT weight, float eps, float* y, int64_t y_stride) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows * groups; ++i) {
    const float* from = x + i / groups * x_stride + i % groups * cols;
    float* to = y + i / groups * y_stride + i % groups * cols;
    const float squares = SumsAround(0, from, cols).squares;
    const float factor = 1 / std::sqrt(squares / static_cast<float>(cols) + eps);
    const V by = hn::Set(d, factor);
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) {
      const V scaled = hn::Mul(hn::LoadU(d, from + c), by);
      hn::StoreU(hn::Mul(scaled, hn::LoadU(d, weight + c)), d, to + c);
    }
    for (; c < cols; ++c) to[c] = from[c] * factor * weight[c];
  }
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(LayerNorm);
HWY_EXPORT(RmsNorm);

}  // namespace

void layer_norm_cpu(const float* x, int64_t rows, int64_t cols, const float* weight,
                    const float* bias, float eps, float* y) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(x, rows, cols, weight, bias, eps, y);
}

void rms_norm_cpu(const float* x, int64_t x_stride, int64_t rows, int64_t groups, int64_t cols,
                  const float* weight, float eps, float* y, int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(x, x_stride, rows, groups, cols, weight, eps, y, y_stride);
}

}  // namespace fovea
#endif  // HWY_ONCE
