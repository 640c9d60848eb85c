// SPDX-License-Identifier: Apache-2.0
// Rotary positions: a vector of pairs at a time. Products are rounded before they are added, as in
// the reference, so that both give the same bits.
#include "ops/rope_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void RotatePairs(D d, float* HWY_RESTRICT first, float* HWY_RESTRICT second,
                            const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin) {
  const auto a = hn::LoadU(d, first);
  const auto b = hn::LoadU(d, second);
  const auto c = hn::LoadU(d, cos);
  const auto s = hn::LoadU(d, sin);
  hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, first);
  hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, second);
}

void Rotate(float* x, int64_t x_stride, int64_t rows, int heads, int head_dim, const float* cos,
            const float* sin) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const int half = head_dim / 2;
  for (int64_t r = 0; r < rows; ++r, cos += half, sin += half) {
    for (int h = 0; h < heads; ++h) {
      float* first = x + r * x_stride + int64_t{h} * head_dim;
      int i = 0;
      for (; i + lanes <= half; i += lanes)
        RotatePairs(d, first + i, first + half + i, cos + i, sin + i);
      for (; i < half; ++i) RotatePairs(d1, first + i, first + half + i, cos + i, sin + i);
    }
  }
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(Rotate);

}  // namespace

void rotate_cpu(float* x, int64_t x_stride, int64_t rows, int heads, int head_dim, const float* cos,
                const float* sin) {
  HWY_DYNAMIC_DISPATCH(Rotate)(x, x_stride, rows, heads, head_dim, cos, sin);
}

}  // namespace fovea
#endif  // HWY_ONCE
