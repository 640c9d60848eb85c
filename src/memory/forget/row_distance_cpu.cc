// SPDX-License-Identifier: Apache-2.0
// How far rows are apart: where merging spends its time.
#include "memory/forget/row_distance.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "memory/forget/row_distance_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> AddSquare(D d, const float* a, hn::Vec<D> part_a, const float* b,
                                hn::Vec<D> part_b, hn::Vec<D> sum) {
  const auto apart = hn::MulSub(hn::LoadU(d, a), part_a, hn::Mul(hn::LoadU(d, b), part_b));
  return hn::MulAdd(apart, apart, sum);
}

float SquaresApart(const float* a, float part_a, const float* b, float part_b, int64_t count) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 4> d4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto of_a = hn::Set(d, part_a);
  const auto of_b = hn::Set(d, part_b);
  // Two, since a sum waits for the one before.
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    sum0 = AddSquare(d, a + i, of_a, b + i, of_b, sum0);
    sum1 = AddSquare(d, a + i + lanes, of_a, b + i + lanes, of_b, sum1);
  }
  auto rest = hn::Zero(d4);
  for (; i < count; i += static_cast<int64_t>(hn::Lanes(d4)))
    rest = AddSquare(d4, a + i, hn::Set(d4, part_a), b + i, hn::Set(d4, part_b), rest);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1))) +
         hn::GetLane(hn::SumOfLanes(d4, rest));
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(SquaresApart);

}  // namespace

float squares_apart(const float* a, float part_a, const float* b, float part_b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SquaresApart)(a, part_a, b, part_b, count);
}

}  // namespace fovea
#endif  // HWY_ONCE
