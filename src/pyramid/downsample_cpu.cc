// SPDX-License-Identifier: Apache-2.0
// Halves a block of interleaved 8-bit RGB, all its levels in one go.
//
//   coarse[y][x][c] = (sum of fine[2y..2y+1][2x..2x+1][c] + 2) >> 2
//
// One call owns one block of the finest level and what it becomes on every coarser one. Sums are
// 16-bit; nothing overflows (4 * 255 + 2). Rows of any width; reads and writes stay inside the
// block.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "pyramid/block_sweep.h"
#include "pyramid/downsample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pyramid/downsample_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// A group is 8 pairs of pixels: 48 bytes of both rows in, 24 bytes out.
constexpr int kGroupPairs = 8;

using V128 = hn::Vec<hn::FixedTag<uint8_t, 16>>;

// Half a group's bytes, in the first 12 of 16 lanes each.
struct Halves {
  V128 first;
  V128 second;
};

#if HWY_TARGET == HWY_EMU128 || !HWY_ARCH_X86

// Sums of neighbouring bytes.
template <class V>
HWY_INLINE auto PairSums(V bytes) {
  const hn::Repartition<uint16_t, hn::DFromV<V>> d16;
  const auto pairs = hn::BitCast(d16, bytes);
  return hn::Add(hn::And(pairs, hn::Set(d16, 255)), hn::ShiftRight<8>(pairs));
}

// Two vectors of 16-bit values below 256 as bytes.
template <class V>
HWY_INLINE V128 Narrow(V low, V high) {
  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<uint8_t, 8> d8_half;
  return hn::Combine(d8, hn::DemoteTo(d8_half, high), hn::DemoteTo(d8_half, low));
}

#else

HWY_INLINE auto PairSums(hn::Vec128<uint8_t> bytes) {
  return hn::Vec128<uint16_t>{_mm_maddubs_epi16(bytes.raw, _mm_set1_epi8(1))};
}
HWY_INLINE V128 Narrow(hn::Vec128<int16_t> low, hn::Vec128<int16_t> high) {
  return V128{_mm_packus_epi16(low.raw, high.raw)};
}

#if HWY_MAX_BYTES >= 32
HWY_INLINE auto PairSums(hn::Vec256<uint8_t> bytes) {
  return hn::Vec256<uint16_t>{_mm256_maddubs_epi16(bytes.raw, _mm256_set1_epi8(1))};
}
// The permutation undoes the pack's working in 128-bit blocks.
HWY_INLINE auto Narrow(hn::Vec256<int16_t> low, hn::Vec256<int16_t> high) {
  const __m256i packed = _mm256_packus_epi16(low.raw, high.raw);
  return hn::Vec256<uint8_t>{_mm256_permute4x64_epi64(packed, 0xD8)};
}
#endif

#endif

// (top + bottom + 2) >> 2, as one rounding multiplication by 2^13 / 2^15.
template <class V>
HWY_INLINE auto Quarter(V top_sums, V bottom_sums) {
  const hn::RebindToSigned<hn::DFromV<V>> d;
  return hn::MulFixedPoint15(hn::BitCast(d, hn::Add(top_sums, bottom_sums)), hn::Set(d, 1 << 13));
}

// Brings the left and right pixel of two pairs together, channel by channel: RR GG BB RR GG BB. The
// pairs are 12 of the 16 bytes of a 128-bit block, its first ones (early) or its last ones (late).
#define FOVEA_PAIRS(at)                                                                    \
  at + 0, at + 3, at + 1, at + 4, at + 2, at + 5, at + 6, at + 9, at + 7, at + 10, at + 8, \
      at + 11, at, at, at, at
// Drops the two idle bytes after each six.
#define FOVEA_SIXES 0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 0, 0, 0, 0

alignas(32) constexpr uint8_t kEarlyLate[32] = {FOVEA_PAIRS(0), FOVEA_PAIRS(4)};
alignas(32) constexpr uint8_t kLateEarly[32] = {FOVEA_PAIRS(4), FOVEA_PAIRS(0)};
alignas(32) constexpr uint8_t kSixes[32] = {FOVEA_SIXES, FOVEA_SIXES};

#undef FOVEA_PAIRS
#undef FOVEA_SIXES

#if HWY_ARCH_X86 && HWY_MAX_BYTES >= 32

// Four pairs, 24 bytes. A load that starts four bytes early has its middle, where the 128-bit
// blocks meet, between the second and third pair; so it needs no shuffle across them.
template <bool kInside>
HWY_INLINE auto SumsOfFour(const uint8_t* from) {
  const hn::FixedTag<uint8_t, 32> d;
  const hn::FixedTag<uint8_t, 16> half;
  if constexpr (kInside) {
    return PairSums(hn::TableLookupBytes(hn::LoadU(d, from - 4), hn::Load(d, kLateEarly)));
  } else {
    const auto bytes = hn::Combine(d, hn::LoadU(half, from + 8), hn::LoadU(half, from));
    return PairSums(hn::TableLookupBytes(bytes, hn::Load(d, kEarlyLate)));
  }
}

template <bool kInside>
HWY_INLINE Halves HalveGroup(const uint8_t* top, const uint8_t* bottom) {
  const hn::FixedTag<uint8_t, 32> d;
  const hn::FixedTag<uint8_t, 16> half;
  const auto early = Quarter(SumsOfFour<kInside>(top), SumsOfFour<kInside>(bottom));
  const auto late = Quarter(SumsOfFour<kInside>(top + 24), SumsOfFour<kInside>(bottom + 24));
  const auto bytes = hn::TableLookupBytes(Narrow(early, late), hn::Load(d, kSixes));
  return {hn::LowerHalf(half, bytes), hn::UpperHalf(half, bytes)};
}

#else

// Two pairs, 12 bytes of 16 loaded; the last ones of a row take the 16 that end with them.
template <bool kLate>
HWY_INLINE auto SumsOfTwo(const uint8_t* from) {
  const hn::FixedTag<uint8_t, 16> d;
  const auto bytes = hn::LoadU(d, kLate ? from - 4 : from);
  return PairSums(hn::TableLookupBytes(bytes, hn::Load(d, kLate ? kLateEarly : kEarlyLate)));
}

template <bool kInside>
HWY_INLINE Halves HalveGroup(const uint8_t* top, const uint8_t* bottom) {
  const hn::FixedTag<uint8_t, 16> d;
  const auto sixes = hn::Load(d, kSixes);
  const auto q0 = Quarter(SumsOfTwo<false>(top), SumsOfTwo<false>(bottom));
  const auto q1 = Quarter(SumsOfTwo<false>(top + 12), SumsOfTwo<false>(bottom + 12));
  const auto q2 = Quarter(SumsOfTwo<false>(top + 24), SumsOfTwo<false>(bottom + 24));
  const auto q3 = Quarter(SumsOfTwo<!kInside>(top + 36), SumsOfTwo<!kInside>(bottom + 36));
  return {hn::TableLookupBytes(Narrow(q0, q1), sixes), hn::TableLookupBytes(Narrow(q2, q3), sixes)};
}

#endif

// A group that has others on both sides: reads and writes up to 4 bytes more than its own.
HWY_INLINE void HalveInside(const uint8_t* top, const uint8_t* bottom, uint8_t* out) {
  const hn::FixedTag<uint8_t, 16> d;
  const Halves halves = HalveGroup<true>(top, bottom);
  hn::StoreU(halves.first, d, out);
  hn::StoreU(halves.second, d, out + 12);
}

// A group that reads and writes its own bytes alone.
HWY_INLINE void HalveExactly(const uint8_t* top, const uint8_t* bottom, uint8_t* out) {
  const hn::FixedTag<uint8_t, 16> d;
  const Halves halves = HalveGroup<false>(top, bottom);
  hn::StoreU(halves.first, d, out);
  hn::StoreU(hn::LowerHalf(halves.second), hn::FixedTag<uint8_t, 8>(), out + 12);
  const hn::FixedTag<uint32_t, 4> d32;
  const uint32_t last = hn::GetLane(hn::Shuffle1032(hn::BitCast(d32, halves.second)));
  std::memcpy(out + 20, &last, sizeof last);
}

// Halves all whole groups of `pairs` pairs, the last one moved back to end with the row. Touches
// the memory at `ahead`, which is needed next, at twice the pace of one row: once for both.
template <bool kAhead>
HWY_INLINE void HalveGroups(const uint8_t* top, const uint8_t* bottom, int pairs, uint8_t* out,
                            const uint8_t* ahead) {
  HalveExactly(top, bottom, out);
  int x = kGroupPairs;
  for (; x + 3 * kGroupPairs <= pairs; x += 2 * kGroupPairs) {
    if constexpr (kAhead) {
      for (int line = 0; line < 3; ++line)
        __builtin_prefetch(ahead + (x - kGroupPairs) * 12 + line * kCacheLineBytes, 0, 2);
    }
    HalveInside(top + x * 6, bottom + x * 6, out + x * 3);
    const int next = x + kGroupPairs;
    HalveInside(top + next * 6, bottom + next * 6, out + next * 3);
  }
  while (x < pairs) {
    x = std::min(x, pairs - kGroupPairs);
    HalveExactly(top + x * 6, bottom + x * 6, out + x * 3);
    x += kGroupPairs;
  }
}

// Halves what makes whole groups and returns how many pairs that was.
HWY_INLINE int HalveMost(const uint8_t* top, const uint8_t* bottom, int pairs, uint8_t* out,
                         const uint8_t* ahead) {
  if (pairs < kGroupPairs) return 0;
  if (ahead != nullptr)
    HalveGroups<true>(top, bottom, pairs, out, ahead);
  else
    HalveGroups<false>(top, bottom, pairs, out, nullptr);
  return pairs;
}

#else

HWY_INLINE int HalveMost(const uint8_t*, const uint8_t*, int, uint8_t*, const uint8_t*) {
  return 0;
}

#endif  // HWY_TARGET != HWY_SCALAR

// One row from the two under it, `width_px` wide each. Nothing is touched when `ahead` is null.
HWY_INLINE void HalveRows(const uint8_t* top, const uint8_t* bottom, int width_px, uint8_t* out,
                          const uint8_t* ahead) {
  for (int x = HalveMost(top, bottom, width_px / 2, out, ahead); x < (width_px + 1) / 2; ++x) {
    const int left = 2 * x * 3;
    const int right = std::min(2 * x + 1, width_px - 1) * 3;
    for (int c = 0; c < 3; ++c)
      out[3 * x + c] = static_cast<uint8_t>(
          (top[left + c] + top[right + c] + bottom[left + c] + bottom[right + c] + 2) >> 2);
  }
}

// Writes whole cache lines past the caches; `to` starts on one.
HWY_INLINE void StreamRow(const uint8_t* from, int64_t bytes, uint8_t* to) {
  const hn::ScalableTag<uint8_t> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + kCacheLineBytes <= bytes; i += kCacheLineBytes)
    for (int64_t part = 0; part < kCacheLineBytes; part += step)
      hn::Stream(hn::LoadU(d, from + i + part), d, to + i + part);
  std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

void DownsampleBlock(Levels levels, const Block& block, Store store) {
  const BlockSweep sweep(levels, block, store);
  const int last = static_cast<int>(levels.size()) - 1;
  for (int y = 0; y < sweep.part(1).rows; ++y) {
    sweep.touch_ahead(y);
    // Row y of level 1, then each coarser row that now has both rows under it.
    for (int level = 1, row = y;; ++level, row >>= 1) {
      HalveRows(sweep.top(level, row), sweep.bottom(level, row), sweep.part(level - 1).width_px,
                sweep.out(level, row), level == 1 ? sweep.ahead(row) : nullptr);
      if (level == 1 && store == Store::kStream)
        StreamRow(sweep.out(1, row), int64_t{3} * sweep.part(1).width_px, sweep.home(row));
      const bool pair_done = row % 2 == 1 || row == sweep.part(level).rows - 1;
      if (level == last || !pair_done) break;
    }
  }
  if (store == Store::kStream) hwy::FlushStream();
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(DownsampleBlock);

void downsample_block(Levels levels, const Block& block, Store store) {
  if (levels.size() < 2) return;
  FOVEA_CHECK(levels.size() <= kMaxLevels);
  const Size size = levels[0].size;
  const int unit = 1 << (levels.size() - 1);
  FOVEA_CHECK(block.x_px >= 0 && block.y_px >= 0 && block.width_px >= 1 && block.height_px >= 1);
  FOVEA_CHECK(block.x_px % unit == 0 && block.y_px % unit == 0);
  const int right = block.x_px + block.width_px;
  const int bottom = block.y_px + block.height_px;
  FOVEA_CHECK(right == size.width_px || (right < size.width_px && right % unit == 0));
  FOVEA_CHECK(bottom == size.height_px || (bottom < size.height_px && bottom % unit == 0));
  if (store == Store::kStream) {
    const auto start = reinterpret_cast<uintptr_t>(levels[1].row(0) + 3 * (block.x_px / 2));
    FOVEA_CHECK(start % kCacheLineBytes == 0 && levels[1].stride_bytes % kCacheLineBytes == 0);
  }
  HWY_DYNAMIC_DISPATCH(DownsampleBlock)(levels, block, store);
}

}  // namespace fovea
#endif
