// SPDX-License-Identifier: Apache-2.0
// Two neighbouring pixels fill the low and the high byte of a 16-bit lane, so that the weighted
// sums need no widening and no lane moves.
#include <cstddef>

#include "relevance/luma.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "relevance/luma_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void luma_pixels(const uint8_t* HWY_RESTRICT rgb, int count, uint8_t* HWY_RESTRICT luma) {
  int x = 0;
#if HWY_TARGET != HWY_SCALAR  // where pairs of bytes are no 16-bit lanes
  const hn::ScalableTag<uint8_t> d8;
  const hn::Repartition<uint16_t, decltype(d8)> d16;
  using V8 = hn::Vec<decltype(d8)>;
  using V16 = hn::Vec<decltype(d16)>;
  const auto lanes = static_cast<int>(hn::Lanes(d8));
  const V16 low = hn::Set(d16, 0x00FF);
  const V16 half = hn::Set(d16, 128);
  // At most 255 * 256 + 128: fits 16 bits.
  const auto weigh = [&](V16 r, V16 g, V16 b) {
    const V16 rg =
        hn::Add(hn::Mul(r, hn::Set(d16, kLumaRed)), hn::Mul(g, hn::Set(d16, kLumaGreen)));
    return hn::Add(hn::Add(rg, half), hn::Mul(b, hn::Set(d16, kLumaBlue)));
  };
  for (; x + lanes <= count; x += lanes) {
    V8 r8;
    V8 g8;
    V8 b8;
    hn::LoadInterleaved3(d8, rgb + static_cast<ptrdiff_t>(3) * x, r8, g8, b8);
    const V16 r = hn::BitCast(d16, r8);
    const V16 g = hn::BitCast(d16, g8);
    const V16 b = hn::BitCast(d16, b8);
    const V16 even = weigh(hn::And(r, low), hn::And(g, low), hn::And(b, low));
    const V16 odd = weigh(hn::ShiftRight<8>(r), hn::ShiftRight<8>(g), hn::ShiftRight<8>(b));
    hn::StoreU(hn::BitCast(d8, hn::Or(hn::ShiftRight<8>(even), hn::AndNot(low, odd))), d8,
               luma + x);
  }
#endif
  for (; x < count; ++x) luma[x] = luma_of(rgb + static_cast<ptrdiff_t>(3) * x);
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(luma_pixels);

void luma_row(const uint8_t* rgb, int count, uint8_t* luma) {
  HWY_DYNAMIC_DISPATCH(luma_pixels)(rgb, count, luma);
}

}  // namespace fovea
#endif
