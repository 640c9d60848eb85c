// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weights/finite_cpu.cc"
#include "weights/finite_cpu.h"

#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// max over all values of (value & exponent) == exponent. Four running maxima, so that a load never
// waits for the one before.
template <class T>
bool any_full_exponent(const T* HWY_RESTRICT values, int64_t count, T exponent) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bits = hn::Set(d, exponent);
  auto most0 = hn::Zero(d);
  auto most1 = hn::Zero(d);
  auto most2 = hn::Zero(d);
  auto most3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    most0 = hn::Max(most0, hn::And(hn::LoadU(d, values + i), bits));
    most1 = hn::Max(most1, hn::And(hn::LoadU(d, values + i + lanes), bits));
    most2 = hn::Max(most2, hn::And(hn::LoadU(d, values + i + 2 * lanes), bits));
    most3 = hn::Max(most3, hn::And(hn::LoadU(d, values + i + 3 * lanes), bits));
  }
  const auto most = hn::Max(hn::Max(most0, most1), hn::Max(most2, most3));
  if (!hn::AllFalse(d, hn::Eq(most, bits))) return true;
  for (; i < count; ++i)
    if ((values[i] & exponent) == exponent) return true;
  return false;
}

bool any16(const uint16_t* values, int64_t count, uint16_t exponent) {
  return any_full_exponent(values, count, exponent);
}
bool any32(const uint32_t* values, int64_t count, uint32_t exponent) {
  return any_full_exponent(values, count, exponent);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(any16);
HWY_EXPORT(any32);

bool any_full_exponent16(const uint16_t* values, int64_t count, uint16_t exponent) {
  return HWY_DYNAMIC_DISPATCH(any16)(values, count, exponent);
}
bool any_full_exponent32(const uint32_t* values, int64_t count, uint32_t exponent) {
  return HWY_DYNAMIC_DISPATCH(any32)(values, count, exponent);
}

}  // namespace fovea
#endif
