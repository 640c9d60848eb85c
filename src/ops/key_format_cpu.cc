// SPDX-License-Identifier: Apache-2.0
// Rows between floats and the format that a memory stores them in.
#include "ops/key_format_cpu.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/key_format_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/key_format_inl.h"

#ifndef FOVEA_KEY_FORMAT_CPU_ONCE
#define FOVEA_KEY_FORMAT_CPU_ONCE
namespace fovea {
namespace {

constexpr float kLeastRow = 1e-30f;  // the inverse of its scale is finite
constexpr float kLargestFinite = 3.4028234664e38f;
constexpr uint16_t kNotANumber = 0x7FC0;  // of bf16

}  // namespace
}  // namespace fovea
#endif  // FOVEA_KEY_FORMAT_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

// head_dim is a multiple of 4, and so are these lanes or a part of it.
using D4 = hn::CappedTag<float, 4>;
using D = hn::CappedTag<float, 16>;

// Calls body(tag, column) for vectors that cover a row.
template <class Body>
HWY_INLINE void ForColumns(int head_dim, const Body& body) {
  int c = 0;
  for (; c + static_cast<int>(hn::Lanes(D())) <= head_dim; c += static_cast<int>(hn::Lanes(D())))
    body(D(), c);
  for (; c < head_dim; c += static_cast<int>(hn::Lanes(D4()))) body(D4(), c);
}

// The scale of a row (bf16), and its inverse, 0 where the row becomes zeros.
HWY_INLINE uint16_t ScaleOf(const float* HWY_RESTRICT row, int head_dim, float largest,
                            float* inverse) {
  float most = 0;
  bool finite = true;
  ForColumns(head_dim, [&](auto d, int c) HWY_ATTR {
    const auto size = hn::Abs(hn::LoadU(d, row + c));
    // False for what is not a number, too.
    finite = finite && hn::AllTrue(d, hn::Le(size, hn::Set(d, kLargestFinite)));
    most = HWY_MAX(most, hn::GetLane(hn::MaxOfLanes(d, size)));
  });
  *inverse = 0;
  if (!finite) return kNotANumber;
  if (most < kLeastRow) return 0;
  const float exact = most / largest;
  uint32_t bits = 0;
  std::memcpy(&bits, &exact, sizeof bits);
  const auto up = static_cast<uint16_t>((bits + 0xFFFF) >> 16);
  *inverse = 1 / widen_bf16(up);
  return up;
}

// bf16, ties to even; what is not a number stays none.
template <class DF, class V>
HWY_INLINE void StoreBf16(DF /*tag*/, V x, std::byte* to) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40));
  const auto all = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, all)), d16, reinterpret_cast<uint16_t*>(to));
}

template <class DF, class V>
HWY_INLINE void StoreInt8(DF d, V x, std::byte* to) {
  const hn::Rebind<int8_t, DF> d8;
  const auto held = hn::Max(hn::Min(x, hn::Set(d, 127.0f)), hn::Set(d, -127.0f));
  hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(held)), d8, reinterpret_cast<int8_t*>(to));
}

// A number's bits of exponent and mantissa are those of an f32 without the last 20, ties to even,
// and 120 less in the exponent; what is below 2^-6 is a whole number of 2^-9.
template <class DF, class V>
HWY_INLINE void StoreFp8(DF d, V x, std::byte* to) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint8_t, DF> d8;
  const auto size = hn::Min(hn::Abs(x), hn::Set(d, 448.0f));
  const auto bits = hn::BitCast(du, size);
  const auto odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<20>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFF))));
  const auto normal = hn::Sub(hn::BitCast(di, rounded), hn::Set(di, 120 << 3));
  const auto small = hn::NearestInt(hn::Mul(size, hn::Set(d, 512.0f)));
  const auto is_small = hn::RebindMask(di, hn::Lt(size, hn::Set(d, 0.015625f)));
  const auto magnitude = hn::IfThenElse(is_small, small, normal);
  const auto sign =
      hn::BitCast(di, hn::And(hn::ShiftRight<24>(hn::BitCast(du, x)), hn::Set(du, 0x80)));
  hn::StoreU(hn::DemoteTo(d8, hn::Or(magnitude, sign)), d8, reinterpret_cast<uint8_t*>(to));
}

template <KeyFormat kFormat>
void NarrowRowsAs(const float* rows, int64_t stride, int64_t count, int head_dim, float largest,
                  std::byte* values, uint16_t* scales) {
  for (int64_t i = 0; i < count; ++i, rows += stride) {
    float inverse = 0;
    if constexpr (scale_bytes(kFormat) > 0) scales[i] = ScaleOf(rows, head_dim, largest, &inverse);
    ForColumns(head_dim, [&](auto d, int c) HWY_ATTR {
      const auto x = hn::LoadU(d, rows + c);
      std::byte* to = values + c * value_bytes(kFormat);
      if constexpr (kFormat == KeyFormat::kBf16) {
        StoreBf16(d, x, to);
      } else {
        // A row that becomes zeros may hold what times 0 is not a number.
        const auto scaled = inverse == 0 ? hn::Zero(d) : hn::Mul(x, hn::Set(d, inverse));
        if constexpr (kFormat == KeyFormat::kInt8)
          StoreInt8(d, scaled, to);
        else
          StoreFp8(d, scaled, to);
      }
    });
    values += int64_t{head_dim} * value_bytes(kFormat);
  }
}

void NarrowRows(KeyFormat format, const float* rows, int64_t stride, int64_t count, int head_dim,
                float largest, std::byte* values, uint16_t* scales) {
  if (format == KeyFormat::kBf16)
    NarrowRowsAs<KeyFormat::kBf16>(rows, stride, count, head_dim, largest, values, scales);
  else if (format == KeyFormat::kInt8)
    NarrowRowsAs<KeyFormat::kInt8>(rows, stride, count, head_dim, largest, values, scales);
  else
    NarrowRowsAs<KeyFormat::kFp8>(rows, stride, count, head_dim, largest, values, scales);
}

void WidenAnyRows(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim,
                  float* out) {
  WidenRows(format, rows, count, head_dim, out);
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(NarrowRows);
HWY_EXPORT(WidenAnyRows);

}  // namespace

void narrow_rows_cpu(KeyFormat format, const float* rows, int64_t stride, int64_t count,
                     int head_dim, std::byte* values, uint16_t* scales) {
  if (format != KeyFormat::kF32) {
    HWY_DYNAMIC_DISPATCH(NarrowRows)
    (format, rows, stride, count, head_dim, row_of(format).largest, values, scales);
    return;
  }
  const size_t bytes = static_cast<size_t>(head_dim) * sizeof(float);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(values + static_cast<size_t>(i) * bytes, rows + i * stride, bytes);
}

void widen_rows_cpu(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(WidenAnyRows)(format, rows, count, head_dim, out);
}

}  // namespace fovea
#endif  // HWY_ONCE
