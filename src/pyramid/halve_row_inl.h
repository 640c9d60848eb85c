// SPDX-License-Identifier: Apache-2.0
// One row of a level from the two rows under it, for the instruction set Highway is at.
//
//   out[x][c] = (top[2x][c] + top[2x+1][c] + bottom[2x][c] + bottom[2x+1][c] + 2) >> 2
//
// Pixels are three bytes, so the two of a pair lie at distance three. A byte shuffle brings them
// side by side, one instruction adds neighbours to 16 bits, one rounds. What differs between
// machines is how a shuffle reaches: over all 64 bytes (AVX-512 with VBMI), or within each 16 (all
// others).
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#if defined(FOVEA_PYRAMID_HALVE_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_PYRAMID_HALVE_ROW_INL_H_
#undef FOVEA_PYRAMID_HALVE_ROW_INL_H_
#else
#define FOVEA_PYRAMID_HALVE_ROW_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Fetches three cache lines into the second-level cache.
HWY_INLINE void Touch(const uint8_t* from) {
  for (int line = 0; line < 3; ++line) __builtin_prefetch(from + 64 * line, 0, 2);
}

#if HWY_TARGET != HWY_SCALAR

// (top + bottom + 2) >> 2, as one rounding multiplication by 2^13 / 2^15.
template <class V>
HWY_INLINE auto Quarter(V top_sums, V bottom_sums) {
  const hn::RebindToSigned<hn::DFromV<V>> d;
  return hn::MulFixedPoint15(hn::BitCast(d, hn::Add(top_sums, bottom_sums)), hn::Set(d, 1 << 13));
}

#endif

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE int HalvePairs(const uint8_t*, const uint8_t*, int, uint8_t*, const uint8_t*) {
  return 0;
}

#elif HWY_TARGET == HWY_AVX3_DL

// Byte 2j and 2j+1 of a shuffled load are the left and right value of the j-th output, ten pairs of
// pixels in all; byte j of the joined result is the low byte of the j-th 16-bit sum of two such.
struct Shuffles {
  uint8_t pairs[64] = {};
  uint8_t join[64] = {};

  constexpr Shuffles() {
    for (int j = 0; j < 30; ++j) {
      pairs[2 * j] = static_cast<uint8_t>(6 * (j / 3) + j % 3);
      pairs[2 * j + 1] = static_cast<uint8_t>(pairs[2 * j] + 3);
      join[j] = static_cast<uint8_t>(2 * j);
      join[j + 30] = static_cast<uint8_t>(64 + 2 * j);
    }
  }
};
alignas(64) constexpr Shuffles kShuffles;

using V512 = hn::Vec512<uint8_t>;

HWY_INLINE auto PairSums(V512 bytes, V512 pairs) {
  const __m512i together = _mm512_permutexvar_epi8(pairs.raw, bytes.raw);
  return hn::Vec512<uint16_t>{_mm512_maddubs_epi16(together, _mm512_set1_epi8(1))};
}

// Halves 20 pairs: two loads of 60 bytes from each row, `load` says how.
template <class Load>
HWY_INLINE V512 HalveTwenty(const uint8_t* top, const uint8_t* bottom, const Load& load) {
  const hn::FixedTag<uint8_t, 64> d;
  const V512 pairs = hn::Load(d, kShuffles.pairs);
  const auto early = Quarter(PairSums(load(top, 0), pairs), PairSums(load(bottom, 0), pairs));
  const auto late = Quarter(PairSums(load(top, 60), pairs), PairSums(load(bottom, 60), pairs));
  const V512 join = hn::Load(d, kShuffles.join);
  return V512{_mm512_permutex2var_epi8(early.raw, join.raw, late.raw)};
}

HWY_INLINE int HalvePairs(const uint8_t* top, const uint8_t* bottom, int pairs, uint8_t* out,
                          const uint8_t* ahead) {
  const hn::FixedTag<uint8_t, 64> d;
  int x = 0;
  // Loads and the store take four bytes more than their own: not at the end of the row.
  for (; x + 22 <= pairs; x += 20) {
    if (ahead != nullptr) {
      Touch(ahead + 12 * x);
      __builtin_prefetch(ahead + 12 * x + 192, 0, 2);
    }
    hn::StoreU(HalveTwenty(top + 6 * x, bottom + 6 * x,
                           [&](const uint8_t* from, int at) { return hn::LoadU(d, from + at); }),
               d, out + 3 * x);
  }
  for (; x < pairs; x += 20) {
    const int bytes = 6 * std::min(20, pairs - x);
    const auto load = [&](const uint8_t* from, int at) {
      const int count = std::clamp(bytes - at, 0, 60);
      return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from + at);
    };
    hn::BlendedStore(HalveTwenty(top + 6 * x, bottom + 6 * x, load),
                     hn::FirstN(d, static_cast<size_t>(bytes / 2)), d, out + 3 * x);
  }
  return pairs;
}

#else

using V128 = hn::Vec<hn::FixedTag<uint8_t, 16>>;

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

// Brings the left and right pixel of two pairs together, channel by channel: RR GG BB RR GG BB. The
// pairs are 12 of the 16 bytes of a 128-bit block, its first ones (early) or its last ones (late).
// NOLINTBEGIN(bugprone-macro-parentheses): a list of numbers, used with 0 and 4
#define FOVEA_PAIRS(at)                                                                    \
  at + 0, at + 3, at + 1, at + 4, at + 2, at + 5, at + 6, at + 9, at + 7, at + 10, at + 8, \
      at + 11, at, at, at, at
// NOLINTEND(bugprone-macro-parentheses)
// Drops the two idle bytes after each six.
#define FOVEA_SIXES 0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 0, 0, 0, 0

alignas(32) constexpr uint8_t kEarlyLate[32] = {FOVEA_PAIRS(0), FOVEA_PAIRS(4)};
alignas(32) constexpr uint8_t kLateEarly[32] = {FOVEA_PAIRS(4), FOVEA_PAIRS(0)};
alignas(32) constexpr uint8_t kSixes[32] = {FOVEA_SIXES, FOVEA_SIXES};

#undef FOVEA_PAIRS
#undef FOVEA_SIXES

// A group is 8 pairs of pixels: 48 bytes of both rows in, 24 bytes out; here they lie in the first
// 12 bytes of two vectors.
constexpr int kGroupPairs = 8;

struct Halves {
  V128 first;
  V128 second;
};

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

HWY_INLINE int HalvePairs(const uint8_t* top, const uint8_t* bottom, int pairs, uint8_t* out,
                          const uint8_t* ahead) {
  if (pairs < kGroupPairs) return 0;
  HalveExactly(top, bottom, out);
  int x = kGroupPairs;
  for (; x + 3 * kGroupPairs <= pairs; x += 2 * kGroupPairs) {
    if (ahead != nullptr) Touch(ahead + 12 * (x - kGroupPairs));
    HalveInside(top + 6 * x, bottom + 6 * x, out + 3 * x);
    const int next = x + kGroupPairs;
    HalveInside(top + 6 * next, bottom + 6 * next, out + 3 * next);
  }
  while (x < pairs) {
    x = std::min(x, pairs - kGroupPairs);  // the last group ends with the row
    HalveExactly(top + 6 * x, bottom + 6 * x, out + 3 * x);
    x += kGroupPairs;
  }
  return pairs;
}

#endif

// Reads and writes the bytes of its rows alone. `ahead`, unless null, is memory that is needed
// next; it is fetched at twice the pace of one row, for two rows lie there.
HWY_INLINE void HalveRow(const uint8_t* top, const uint8_t* bottom, int width_px, uint8_t* out,
                         const uint8_t* ahead) {
  for (int x = HalvePairs(top, bottom, width_px / 2, out, ahead); x < (width_px + 1) / 2; ++x) {
    const int left = 2 * x * 3;
    const int right = std::min(2 * x + 1, width_px - 1) * 3;
    for (int c = 0; c < 3; ++c)
      out[3 * x + c] = static_cast<uint8_t>(
          (top[left + c] + top[right + c] + bottom[left + c] + bottom[right + c] + 2) >> 2);
  }
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
