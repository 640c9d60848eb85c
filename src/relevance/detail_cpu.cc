// SPDX-License-Identifier: Apache-2.0
// Two neighbouring children fill the low and the high byte of a 16-bit lane, and their common
// parent is that lane's own, so no child has to be moved. 16-bit differences, squares summed in 32
// bits: a row of 64 children is at most 64 * 3 * 255^2 in all.
#include "relevance/detail_cpu.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "relevance/detail_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint64_t lost_row(const uint8_t* HWY_RESTRICT children, const uint8_t* HWY_RESTRICT parents,
                  int count) {
  int x = 0;
  uint64_t sum = 0;
#if HWY_TARGET != HWY_SCALAR  // where pairs of bytes are no 16-bit lanes
  const hn::CappedTag<uint8_t, 64> d8;
  const hn::Half<decltype(d8)> half8;
  const hn::Repartition<uint16_t, decltype(d8)> du16;
  const hn::RebindToSigned<decltype(du16)> d16;
  const hn::Repartition<int32_t, decltype(d8)> d32;
  using V16 = hn::Vec<decltype(d16)>;
  const auto lanes = static_cast<int>(hn::Lanes(d8));
  const auto low = hn::Set(du16, 0x00FF);
  auto sum0 = hn::Zero(d32);
  auto sum1 = hn::Zero(d32);
  const auto add = [&](hn::Vec<decltype(d8)> child, hn::Vec<decltype(half8)> parent) {
    const V16 mean = hn::PromoteTo(d16, parent);
    const auto pair = hn::BitCast(du16, child);
    const V16 left = hn::Sub(hn::BitCast(d16, hn::And(pair, low)), mean);
    const V16 right = hn::Sub(hn::BitCast(d16, hn::ShiftRight<8>(pair)), mean);
    sum0 = hn::ReorderWidenMulAccumulate(d32, left, left, sum0, sum1);
    sum0 = hn::ReorderWidenMulAccumulate(d32, right, right, sum0, sum1);
  };
  for (; x + lanes <= count; x += lanes) {
    hn::Vec<decltype(d8)> r;
    hn::Vec<decltype(d8)> g;
    hn::Vec<decltype(d8)> b;
    hn::Vec<decltype(half8)> parent_r;
    hn::Vec<decltype(half8)> parent_g;
    hn::Vec<decltype(half8)> parent_b;
    hn::LoadInterleaved3(d8, children + static_cast<ptrdiff_t>(3) * x, r, g, b);
    hn::LoadInterleaved3(half8, parents + static_cast<ptrdiff_t>(3) * (x / 2), parent_r, parent_g,
                         parent_b);
    add(r, parent_r);
    add(g, parent_g);
    add(b, parent_b);
  }
  sum = static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum0, sum1))));
#endif
  for (; x < count; ++x) {
    for (int c = 0; c < 3; ++c) {
      const int step = children[3 * x + c] - parents[3 * (x / 2) + c];
      sum += static_cast<uint64_t>(step * step);
    }
  }
  return sum;
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(lost_row);

uint64_t lost_in_row(const uint8_t* children, const uint8_t* parents, int count) {
  return HWY_DYNAMIC_DISPATCH(lost_row)(children, parents, count);
}

}  // namespace fovea
#endif
