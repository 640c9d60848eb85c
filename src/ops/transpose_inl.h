// SPDX-License-Identifier: Apache-2.0
// Transposes of 4 x 4 values of 32 bits within the 128-bit blocks of vectors, for packing. No
// ordinary include guard: it is compiled once for each SIMD target.
#include <hwy/highway.h>

#include <cstdint>

#include "ops/unroll.h"

#if defined(FOVEA_OPS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_TRANSPOSE_INL_H_
#undef FOVEA_OPS_TRANSPOSE_INL_H_
#else
#define FOVEA_OPS_TRANSPOSE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using D32 = hn::ScalableTag<uint32_t>;
using V32 = hn::Vec<D32>;

constexpr int64_t kLanes = HWY_TARGET == HWY_SCALAR ? 1 : HWY_MAX_BYTES / 4;

#if HWY_TARGET != HWY_SCALAR

template <class D, class V>
HWY_INLINE void transpose_blocks(D d, V& a, V& b, V& c, V& e) {
  const hn::RepartitionToWide<D> d64;
  const auto ab0 = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab1 = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce0 = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
  const auto ce1 = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  a = hn::BitCast(d, hn::InterleaveLower(d64, ab0, ce0));
  b = hn::BitCast(d, hn::InterleaveUpper(d64, ab0, ce0));
  c = hn::BitCast(d, hn::InterleaveLower(d64, ab1, ce1));
  e = hn::BitCast(d, hn::InterleaveUpper(d64, ab1, ce1));
}

// 16 bytes from each of lanes / 4 rows that lie 4 rows apart.
template <class W>
HWY_INLINE V32 load_rows(const W* const* rows, int64_t c) {
  const hn::Full128<uint8_t> bytes;
  const auto block = [&](int r) HWY_ATTR {
    return hn::BitCast(hn::Full128<uint32_t>(),
                       hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(rows[r] + c)));
  };
#if HWY_MAX_BYTES == 16
  return block(0);
#elif HWY_MAX_BYTES == 32
  return hn::Combine(D32(), block(4), block(0));
#else
  const hn::Half<D32> d8;
  return hn::Combine(D32(), hn::Combine(d8, block(12), block(8)),
                     hn::Combine(d8, block(4), block(0)));
#endif
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif
