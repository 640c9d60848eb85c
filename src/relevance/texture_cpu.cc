// SPDX-License-Identifier: Apache-2.0
// Steps in 8 bits (a saturating difference both ways), summed in 16: at most 4 * 255 a pixel, so
// that four rows fit.
#include "relevance/texture_cpu.h"

#include <cstdlib>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "relevance/texture_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void add_row_steps(const uint8_t* HWY_RESTRICT above, const uint8_t* HWY_RESTRICT here,
                   const uint8_t* HWY_RESTRICT below, int count, uint16_t* HWY_RESTRICT sums) {
  int x = 0;
#if HWY_TARGET != HWY_SCALAR  // where a vector has no half
  const hn::ScalableTag<uint16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const auto lanes = static_cast<int>(hn::Lanes(d16));
  for (; x + lanes <= count; x += lanes) {
    const auto centre = hn::LoadU(d8, here + x);
    const auto step_to = [&](const uint8_t* other) {
      const auto value = hn::LoadU(d8, other + x);
      return hn::PromoteTo(
          d16, hn::Or(hn::SaturatedSub(centre, value), hn::SaturatedSub(value, centre)));
    };
    const auto across = hn::Add(step_to(here - 1), step_to(here + 1));
    const auto down = hn::Add(step_to(above), step_to(below));
    hn::StoreU(hn::Add(hn::LoadU(d16, sums + x), hn::Add(across, down)), d16, sums + x);
  }
#endif
  for (; x < count; ++x)
    sums[x] = static_cast<uint16_t>(sums[x] + std::abs(here[x] - here[x - 1]) +
                                    std::abs(here[x] - here[x + 1]) + std::abs(here[x] - above[x]) +
                                    std::abs(here[x] - below[x]));
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(add_row_steps);

void add_steps(const uint8_t* above, const uint8_t* here, const uint8_t* below, int count,
               uint16_t* sums) {
  HWY_DYNAMIC_DISPATCH(add_row_steps)(above, here, below, count, sums);
}

}  // namespace fovea
#endif
