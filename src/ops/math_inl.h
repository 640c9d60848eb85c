// SPDX-License-Identifier: Apache-2.0
// Exponentials for vectors, written for foreach_target: include it after hwy/highway.h.
#if defined(FOVEA_OPS_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_MATH_INL_H
#undef FOVEA_OPS_MATH_INL_H
#else
#define FOVEA_OPS_MATH_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Adding it to a small number leaves that number, rounded, in the lowest bits.
constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23
constexpr float kLog2E = 1.44269504f;

// 2^(fraction + n), where |fraction| <= 1/2 and the lowest bits of `shifted` hold n. The polynomial
// is the best one of degree 5 with value 1 at 0: its relative error is 9.2e-8.
template <class D, class V>
HWY_INLINE V ScaledPower(D d, V fraction, V shifted) {
  const hn::RebindToSigned<D> di;
  V power = hn::Set(d, 0.00132647273f);
  power = hn::MulAdd(power, fraction, hn::Set(d, 0.00967151299f));
  power = hn::MulAdd(power, fraction, hn::Set(d, 0.0555073358f));
  power = hn::MulAdd(power, fraction, hn::Set(d, 0.240222424f));
  power = hn::MulAdd(power, fraction, hn::Set(d, 0.693147004f));
  power = hn::MulAdd(power, fraction, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, power), exponent));
}

// 2^x for x <= 127, within 2e-7 of it; 2^-125 for what is less, so that no slow denormals arise.
template <class D, class V>
HWY_INLINE V Exp2(D d, V x) {
  const V magic = hn::Set(d, kRoundToInteger);
  x = hn::Max(x, hn::Set(d, -125.0f));
  const V shifted = hn::Add(x, magic);
  return ScaledPower(d, hn::Sub(x, hn::Sub(shifted, magic)), shifted);
}

// e^x within 2e-7 of it; x is brought into [-86, 88] first. ln 2 is taken off in two parts, of
// which the first has so few bits that its product with the integer is exact.
template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const V magic = hn::Set(d, kRoundToInteger);
  x = hn::Min(hn::Max(x, hn::Set(d, -86.0f)), hn::Set(d, 88.0f));
  const V shifted = hn::Add(hn::Mul(x, hn::Set(d, kLog2E)), magic);
  const V n = hn::Sub(shifted, magic);
  V rest = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  rest = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), rest);
  return ScaledPower(d, hn::Mul(rest, hn::Set(d, kLog2E)), shifted);
}

// x / (1 + e^-t): x times the logistic function of t. Below t = -86 it is x * 2^-124 or less: 0.
template <class D, class V>
HWY_INLINE V TimesLogistic(D d, V x, V t) {
  const V weighted = hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(t))));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -86.0f)), weighted);
}

// The share of a normal distribution below x, erfc(-x / sqrt 2) / 2. With z = |x| / sqrt 2 and
// t = 1 / (1 + z / 2), erfc(z) = e^(-z^2) * (a polynomial of degree 9 in t), whose relative error
// is 4.3e-8; what rounding took from z^2 is put back, since its error is the exponential's.
template <class D, class V>
HWY_INLINE V NormalBelow(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  // Beyond 13 the share is 0 or 1; the bound keeps z^2 finite.
  const V z = hn::Mul(hn::Min(hn::Abs(x), hn::Set(d, 13.0f)), hn::Set(d, 0.707106781f));
  const V t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.5f), one));
  V tail = hn::Set(d, -0.0590689182f);
  tail = hn::MulAdd(tail, t, hn::Set(d, 0.284574777f));
  tail = hn::MulAdd(tail, t, hn::Set(d, -0.487199575f));
  tail = hn::MulAdd(tail, t, hn::Set(d, 0.278066814f));
  tail = hn::MulAdd(tail, t, hn::Set(d, -0.0266254637f));
  tail = hn::MulAdd(tail, t, hn::Set(d, 0.202686802f));
  tail = hn::MulAdd(tail, t, hn::Set(d, 0.243103772f));
  tail = hn::MulAdd(tail, t, hn::Set(d, 0.282375306f));
  tail = hn::MulAdd(tail, t, hn::Set(d, 0.282086432f));
  const V square = hn::Mul(z, z);
  const V lost = hn::MulSub(z, z, square);
  const V decay = hn::Mul(Exp(d, hn::Neg(square)), hn::Sub(one, lost));
  const V half = hn::Mul(hn::Mul(hn::Mul(tail, t), decay), hn::Set(d, 0.5f));
  const V share = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), half, hn::Sub(one, half));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -13.0f)), share);
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
