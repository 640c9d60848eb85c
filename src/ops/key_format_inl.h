// SPDX-License-Identifier: Apache-2.0
// Stored numbers as vectors of floats, without the scale of their row. Written for foreach_target.
#if defined(FOVEA_OPS_KEY_FORMAT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_KEY_FORMAT_INL_H
#undef FOVEA_OPS_KEY_FORMAT_INL_H
#else
#define FOVEA_OPS_KEY_FORMAT_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "ops/int8_layout.h"
#include "ops/key_format.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The numbers from `at` on, one for each lane.
template <KeyFormat kFormat, class D>
HWY_INLINE hn::Vec<D> LoadStored(D d, const std::byte* HWY_RESTRICT at) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  if constexpr (kFormat == KeyFormat::kF32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(at));
  } else if constexpr (kFormat == KeyFormat::kBf16) {
    const hn::Rebind<uint16_t, D> d16;
    const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(at));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  } else if constexpr (kFormat == KeyFormat::kInt8) {
    const hn::Rebind<int8_t, D> d8;
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(at))));
  } else {
    const hn::Rebind<uint8_t, D> d8;
    const auto bits = hn::PromoteTo(du, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(at)));
    const auto size = hn::And(bits, hn::Set(du, 0x7F));
    // An exponent's place is 20 bits further in an f32, its bias 120 more. What has none is a
    // whole number of 2^-9.
    const auto normal =
        hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(size), hn::Set(du, uint32_t{120} << 23)));
    const auto small = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, size)), hn::Set(d, 0.001953125f));
    const auto is_small = hn::Lt(hn::BitCast(di, size), hn::Set(di, 8));
    const auto unsigned_value = hn::IfThenElse(hn::RebindMask(d, is_small), small, normal);
    const auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(du, 0x80)));
    return hn::Or(unsigned_value, hn::BitCast(d, sign));
  }
}

// Rows as floats: [count][head_dim]; head_dim is a multiple of 4.
template <KeyFormat kFormat>
HWY_INLINE void WidenRows(const StoredRows& rows, int64_t count, int head_dim,
                          float* HWY_RESTRICT out) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 4> d4;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const auto lanes4 = static_cast<int>(hn::Lanes(d4));
  const std::byte* values = rows.values;
  for (int64_t i = 0; i < count; ++i, out += head_dim) {
    const float scale = scale_bytes(kFormat) > 0 ? widen_bf16(rows.scales[i]) : 1;
    int c = 0;
    for (; c + lanes <= head_dim; c += lanes, values += lanes * value_bytes(kFormat))
      hn::StoreU(hn::Mul(LoadStored<kFormat>(d, values), hn::Set(d, scale)), d, out + c);
    for (; c < head_dim; c += lanes4, values += lanes4 * value_bytes(kFormat))
      hn::StoreU(hn::Mul(LoadStored<kFormat>(d4, values), hn::Set(d4, scale)), d4, out + c);
  }
}

inline void WidenRows(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim,
                      float* HWY_RESTRICT out) {
  if (format == KeyFormat::kF32)
    WidenRows<KeyFormat::kF32>(rows, count, head_dim, out);
  else if (format == KeyFormat::kBf16)
    WidenRows<KeyFormat::kBf16>(rows, count, head_dim, out);
  else if (format == KeyFormat::kInt8)
    WidenRows<KeyFormat::kInt8>(rows, count, head_dim, out);
  else
    WidenRows<KeyFormat::kFp8>(rows, count, head_dim, out);
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
