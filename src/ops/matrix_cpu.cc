// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matrix_cpu.cc"
#include "ops/matrix_cpu.h"

#include <algorithm>
#include <cstring>

#include "ops/int8_layout.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

#include "ops/transpose_inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

using DI = hn::ScalableTag<int32_t>;

constexpr int64_t kBlock = Int8Layout::kBlock;
constexpr int64_t kPanel = Int8Layout::kPanel;
constexpr int64_t kGroups = Int8Layout::kGroups;

// A vector of f32 from the source's type.
HWY_INLINE VF load_f32(const float* from) { return hn::LoadU(DF(), from); }
HWY_INLINE VF load_f32(const hwy::bfloat16_t* from) {
  const hn::Rebind<hwy::bfloat16_t, DF> d;
  return hn::PromoteTo(DF(), hn::LoadU(d, from));
}
HWY_INLINE VF load_f32(const hwy::float16_t* from) {
  const hn::Rebind<hwy::float16_t, DF> d;
  return hn::PromoteTo(DF(), hn::LoadU(d, from));
}

// Calls body(pointer to whole vectors of values, place, how many count) up to `count`.
template <class T, class Body>
HWY_INLINE void for_vectors(const T* from, int64_t count, const Body& body) {
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) body(from + c, c, kLanes);
  if (c == count) return;
  T rest[kLanes] = {};
  std::memcpy(static_cast<void*>(rest), from + c, static_cast<size_t>(count - c) * sizeof(T));
  body(rest, c, count - c);
}

template <class T>
void to_f32(const T* from, int64_t count, float* out) {
  for_vectors(from, count, [&](const T* values, int64_t c, int64_t valid) HWY_ATTR {
    if (valid == kLanes) return hn::StoreU(load_f32(values), DF(), out + c);
    HWY_ALIGN float rest[kLanes];
    hn::Store(load_f32(values), DF(), rest);
    std::memcpy(out + c, rest, static_cast<size_t>(valid) * sizeof(float));
  });
}

template <class T>
void to_bf16(const T* from, int64_t count, uint16_t* out) {
  const DI di;
  const D32 d;
  const hn::Rebind<uint16_t, DI> d_narrow;
  for_vectors(from, count, [&](const T* values, int64_t c, int64_t valid) HWY_ATTR {
    const auto bits = hn::BitCast(d, load_f32(values));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
    const auto narrow = hn::DemoteTo(d_narrow, hn::BitCast(di, hn::ShiftRight<16>(rounded)));
    if (valid == kLanes) return hn::StoreU(narrow, d_narrow, out + c);
    HWY_ALIGN uint16_t rest[kLanes];
    hn::StoreU(narrow, d_narrow, rest);
    std::memcpy(out + c, rest, static_cast<size_t>(valid) * sizeof(uint16_t));
  });
}

HWY_INLINE float as_float(float value) { return value; }
HWY_INLINE float as_float(hwy::bfloat16_t value) { return hwy::F32FromBF16(value); }
HWY_INLINE float as_float(hwy::float16_t value) {
  // 2^112 moves the exponent from f16's place to f32's, subnormals included.
  const uint32_t bits = static_cast<uint32_t>(value.bits & 0x7FFF) << 13;
  float scaled = 0;
  std::memcpy(&scaled, &bits, sizeof scaled);
  return scaled * 0x1p112F;
}

// The largest size in a block.
HWY_INLINE float largest(const float* values) {
  auto most = hn::Zero(DF());
  for (int64_t c = 0; c < kBlock; c += kLanes) most = hn::Max(most, hn::Abs(load_f32(values + c)));
  return hn::GetLane(hn::MaxOfLanes(DF(), most));
}

#if HWY_TARGET == HWY_SCALAR

template <class T>
T largest(const T* values) {
  uint16_t most = 0;
  for (int64_t c = 0; c < kBlock; ++c)
    most = std::max(most, static_cast<uint16_t>(values[c].bits & 0x7FFF));
  return T{most};
}

// values[64] of a row as bytes, in order.
template <class T>
void quantise_block(const T* values, float inverse, uint8_t* out) {
  for (int64_t c = 0; c < kBlock; ++c) {
    const auto rounded = hn::NearestInt(hn::Mul(load_f32(values + c), hn::Set(DF(), inverse)));
    out[c] = static_cast<uint8_t>(hn::GetLane(rounded) + Int8Layout::kZero);
  }
}
constexpr int64_t group_at(int64_t place) { return place; }

#else

HWY_INLINE hn::Vec128<int16_t> fold(hn::Vec128<int16_t> v) { return v; }
template <class V>
HWY_INLINE hn::Vec128<int16_t> fold(V v) {
  const hn::Half<hn::DFromV<V> > half;
  return fold(hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
}

// Sizes of 16-bit floats are ordered as their bits without the sign are.
template <class T>
HWY_INLINE T largest(const T* values) {
  const hn::ScalableTag<int16_t> d;
  const auto* bits = reinterpret_cast<const int16_t*>(values);
  const auto size = hn::Set(d, 0x7FFF);
  auto most = hn::Zero(d);
  FOVEA_UNROLL
  for (int64_t c = 0; c < kBlock; c += 2 * kLanes)
    most = hn::Max(most, hn::And(hn::LoadU(d, bits + c), size));
  const hn::Full128<int16_t> d8;
  auto few = fold(most);
  few = hn::Max(few, hn::ShiftRightBytes<8>(d8, few));
  few = hn::Max(few, hn::ShiftRightBytes<4>(d8, few));
  few = hn::Max(few, hn::ShiftRightBytes<2>(d8, few));
  return T{static_cast<uint16_t>(hn::GetLane(few))};
}

// values[64] of a row as bytes. Two vectors are narrowed at once, which leaves the groups of four
// in another order: place p holds group_at(p).
template <class T>
HWY_INLINE void quantise_block(const T* HWY_RESTRICT values, float inverse,
                               uint8_t* HWY_RESTRICT out) {
  const DI di;
  const hn::Repartition<int16_t, DI> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const auto factor = hn::Set(DF(), inverse);
  // Added to 1.5 * 2^23 a value is rounded to an integer, which the lowest bits then are.
  const auto magic = hn::Set(DF(), 12582912.0F + Int8Layout::kZero);
  const auto low_byte = hn::Set(di, 0xFF);
  const auto round = [&](const T* from) HWY_ATTR {
    return hn::And(hn::BitCast(di, hn::MulAdd(load_f32(from), factor, magic)), low_byte);
  };
  FOVEA_UNROLL
  for (int64_t c = 0; c < kBlock; c += 2 * kLanes) {
    const auto both = hn::ReorderDemote2To(d16, round(values + c), round(values + c + kLanes));
    hn::StoreU(hn::DemoteTo(d8, both), d8, out + c);
  }
}

constexpr int64_t group_at(int64_t place) {
  constexpr int64_t kGroupsOfVector = kLanes / 4;
  const int64_t pair = place / (2 * kGroupsOfVector) * (2 * kGroupsOfVector);
  const int64_t in_pair = place - pair;
  return pair + in_pair / 2 + (in_pair % 2) * kGroupsOfVector;
}

#endif

// values[group_at(place)][row] = bytes[row][place], each a group of four bytes. Stored past the
// caches: a matrix is larger, and need not be read before it is written.
HWY_INLINE void transpose_groups(const uint8_t* HWY_RESTRICT bytes, uint8_t* HWY_RESTRICT values) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t r = 0; r < kPanel; ++r)
    for (int64_t g = 0; g < kGroups; ++g)
      std::memcpy(values + (g * kPanel + r) * 4, bytes + r * kBlock + g * 4, 4);
#else
  const D32 d;
  const uint8_t* rows[kPanel];
  for (int64_t r = 0; r < kPanel; ++r) rows[r] = bytes + r * kBlock;
  for (int64_t place = 0; place < kGroups; place += 4) {
    for (int64_t part = 0; part < kPanel; part += kLanes) {
      V32 v[4];
      FOVEA_UNROLL
      for (int q = 0; q < 4; ++q) v[q] = load_rows(rows + part + q, place * 4);
      transpose_blocks(d, v[0], v[1], v[2], v[3]);
      FOVEA_UNROLL
      for (int q = 0; q < 4; ++q)
        hn::Stream(v[q], d,
                   reinterpret_cast<uint32_t*>(values + group_at(place + q) * kPanel * 4) + part);
    }
  }
#endif
}

// A block of a row: its scale, the largest size / 127 rounded up to bf16, and its values as bytes.
template <class T>
HWY_INLINE uint16_t quantise_row(const T* HWY_RESTRICT values, uint8_t* HWY_RESTRICT bytes) {
  const float most = as_float(largest(values));
  const float exact = most * (1.0F / 127.0F);
  uint32_t bits = 0;
  std::memcpy(&bits, &exact, sizeof bits);
  bits = (bits + 0xFFFF) & 0xFFFF0000U;
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof scale);
  // What is smaller than any sensible weight is nothing, and its inverse would be infinite.
  const bool any = most > 1e-30F;
  quantise_block(values, any ? 1.0F / scale : 0.0F, bytes);
  return any ? static_cast<uint16_t>(bits >> 16) : uint16_t{0};
}

// A few blocks of each row in turn, so that a row is read in longer runs: rows that are a power of
// two long compete for the same few places of a cache. The next runs are asked for in advance.
template <class T>
void quantise(const T* source, int64_t row, int64_t rows, int64_t cols, uint8_t* panel) {
  constexpr int64_t kRun = 16;
  const Int8Layout layout(rows, cols);
  auto* scales = reinterpret_cast<uint16_t*>(panel);
  HWY_ALIGN uint8_t bytes[kRun][kPanel * kBlock];
  for (int64_t run = 0; run < layout.blocks; run += kRun) {
    const int64_t count = std::min(kRun, layout.blocks - run);
    for (int64_t r = 0; r < kPanel; ++r) {
      for (int64_t b = 0; b < count; ++b) {
        const int64_t c = (run + b) * kBlock;
        const int64_t valid = row + r < rows ? std::min(kBlock, cols - c) : 0;
        const T* from = source + (row + r) * cols + c;
        T padded[kBlock];
        if (valid < kBlock) {
          std::memset(static_cast<void*>(padded), 0, sizeof padded);
          if (valid > 0) std::memcpy(padded, from, static_cast<size_t>(valid) * sizeof(T));
          from = padded;
        }
        const int64_t ahead = run + kRun < layout.blocks ? (row + r) * cols + c + kRun * kBlock
                                                         : (row + kPanel + r) * cols + b * kBlock;
        for (int64_t v = 0; v < kBlock; v += static_cast<int64_t>(64 / sizeof(T)))
          __builtin_prefetch(source + ahead + v, 0, 2);
        scales[(run + b) * kPanel + r] = quantise_row(from, bytes[b] + r * kBlock);
      }
    }
    for (int64_t b = 0; b < count; ++b)
      transpose_groups(bytes[b], panel + layout.values_offset + (run + b) * kBlock * kPanel);
  }
  hwy::FlushStream();
}

// Calls body with a pointer of the source's type.
template <class Body>
void with_values(const WeightSource& source, const Body& body) {
  switch (source.type) {
    case WeightSource::Type::kF32:
      return body(static_cast<const float*>(source.values));
    case WeightSource::Type::kF16:
      return body(static_cast<const hwy::float16_t*>(source.values));
    case WeightSource::Type::kBf16:
      return body(static_cast<const hwy::bfloat16_t*>(source.values));
  }
}

void all_to_f32(const WeightSource& source, int64_t begin, int64_t count, float* out) {
  with_values(source, [&](const auto* values) { to_f32(values + begin, count, out); });
}
void all_to_bf16(const WeightSource& source, int64_t begin, int64_t count, uint16_t* out) {
  with_values(source, [&](const auto* values) { to_bf16(values + begin, count, out); });
}
void all_to_int8(const WeightSource& source, int64_t row, int64_t rows, int64_t cols,
                 uint8_t* panel) {
  with_values(source, [&](const auto* values) { quantise(values, row, rows, cols, panel); });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(all_to_f32);
HWY_EXPORT(all_to_bf16);
HWY_EXPORT(all_to_int8);

void convert_to_f32(const WeightSource& source, int64_t begin, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(all_to_f32)(source, begin, count, out);
}
void convert_to_bf16(const WeightSource& source, int64_t begin, int64_t count, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(all_to_bf16)(source, begin, count, out);
}
void quantise_panel(const WeightSource& source, int64_t row, int64_t rows, int64_t cols,
                    uint8_t* panel) {
  HWY_DYNAMIC_DISPATCH(all_to_int8)(source, row, rows, cols, panel);
}

}  // namespace fovea
#endif
