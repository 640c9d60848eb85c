// SPDX-License-Identifier: Apache-2.0
// Element-wise functions: a vector at a time, and the last few values through a small buffer, so
// that nothing beyond them is read or written.
#include "ops/activation_cpu.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/math_inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct GeluTanh {
  // x/2 * (1 + tanh u) = x / (1 + e^-2u), which loses nothing where tanh u is near -1.
  HWY_INLINE V operator()(D d, V x, V /*unused*/) const {
    const V cubic =
        hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.0713548162726f), hn::Set(d, 1.5957691216f));
    return TimesLogistic(d, x, hn::Mul(x, cubic));
  }
};

struct Gelu {
  HWY_INLINE V operator()(D d, V x, V /*unused*/) const { return hn::Mul(x, NormalBelow(d, x)); }
};

struct SiluMultiply {
  HWY_INLINE V operator()(D d, V gate, V up) const {
    return hn::Mul(TimesLogistic(d, gate, gate), up);
  }
};

struct Sum {
  HWY_INLINE V operator()(D /*unused*/, V x, V y) const { return hn::Add(x, y); }
};

// x = function(x, y); a function of x alone gets x twice.
template <class Function>
HWY_INLINE void Apply(const Function& function, float* x, const float* y, int64_t count) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(function(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, x + i);
  if (i == count) return;
  HWY_ALIGN float last_x[hn::MaxLanes(D())] = {};
  HWY_ALIGN float last_y[hn::MaxLanes(D())] = {};
  const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
  std::memcpy(last_x, x + i, bytes);
  std::memcpy(last_y, y + i, bytes);
  hn::Store(function(d, hn::Load(d, last_x), hn::Load(d, last_y)), d, last_x);
  std::memcpy(x + i, last_x, bytes);
}

void ApplyGeluTanh(float* x, int64_t count) { Apply(GeluTanh(), x, x, count); }
void ApplyGelu(float* x, int64_t count) { Apply(Gelu(), x, x, count); }
void ApplySilu(float* gate, const float* up, int64_t count) {
  Apply(SiluMultiply(), gate, up, count);
}
void ApplySum(float* x, const float* y, int64_t count) { Apply(Sum(), x, y, count); }

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(ApplyGeluTanh);
HWY_EXPORT(ApplyGelu);
HWY_EXPORT(ApplySilu);
HWY_EXPORT(ApplySum);

}  // namespace

void gelu_tanh_cpu(float* x, int64_t count) { HWY_DYNAMIC_DISPATCH(ApplyGeluTanh)(x, count); }
void gelu_cpu(float* x, int64_t count) { HWY_DYNAMIC_DISPATCH(ApplyGelu)(x, count); }
void silu_multiply_cpu(float* gate, const float* up, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ApplySilu)(gate, up, count);
}
void add_cpu(float* x, const float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ApplySum)(x, y, count);
}

}  // namespace fovea
#endif  // HWY_ONCE
