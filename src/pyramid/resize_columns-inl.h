// SPDX-License-Identifier: Apache-2.0
// The horizontal pass of the resize. Neighbouring outputs start at unrelated inputs, so the lanes
// are 16 rows: the bytes of 16 rows are transposed, pairs of pixels are widened to 16 bits once,
// every output is then a few multiplications of 16 rows at a time, and the result is transposed
// back.
#if defined(FOVEA_RESIZE_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_RESIZE_COLUMNS_INL_H_
#undef FOVEA_RESIZE_COLUMNS_INL_H_
#else
#define FOVEA_RESIZE_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "hwy/highway.h"
#include "pyramid/resize_pairs.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // one lane: nothing to transpose

void ResizeHorizontally(const detail::SourcePixels& source, const detail::PairAxis& axis,
                        int x_begin, int x_end, int row_begin, int row_end, uint8_t* out,
                        int64_t stride) {
  for (int row = row_begin; row < row_end; ++row, out += stride) {
    for (int x = x_begin; x < x_end; ++x) {
      const int first = axis.first[static_cast<size_t>(x)];
      for (int c = 0; c < 3; ++c)
        out[(x - x_begin) * 3 + c] =
            detail::weigh_pairs(axis.weights(x), axis.count[static_cast<size_t>(x)],
                                [&](int tap) { return source.pixel(first + tap, row)[c]; });
    }
  }
}

#else

constexpr int kGroupRows = 16;  // rows taken at once
constexpr int kStripPx = 64;    // outputs taken at once: their inputs stay in the first-level cache

// Columns become rows: out[i][j] = in[j][i], 16 x 16 bytes.
HWY_INLINE void Transpose(const uint8_t* const in[kGroupRows], uint8_t* const out[kGroupRows]) {
  const hn::Full128<uint8_t> d;
  hn::Vec<decltype(d)> a[kGroupRows];
  hn::Vec<decltype(d)> b[kGroupRows];
  for (int i = 0; i < kGroupRows; ++i) a[i] = hn::LoadU(d, in[i]);
  // A perfect shuffle rotates the eight bits of (row, column) by one; four of them swap the two.
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = hn::InterleaveLower(d, a[i], a[i + 8]);
      b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + 8]);
    }
    for (int i = 0; i < 8; ++i) {
      a[2 * i] = hn::InterleaveLower(d, b[i], b[i + 8]);
      a[2 * i + 1] = hn::InterleaveUpper(d, b[i], b[i + 8]);
    }
  }
  for (int i = 0; i < kGroupRows; ++i) hn::StoreU(a[i], d, out[i]);
}

// Bytes [begin, end) of 16 rows -> columns [end - begin][16], in steps of 16. What lies beyond
// `row_bytes` counts as zero.
void ToColumns(const uint8_t* const rows[kGroupRows], int64_t begin, int64_t end, int64_t row_bytes,
               uint8_t* columns) {
  const uint8_t* in[kGroupRows];
  uint8_t* out[kGroupRows];
  uint8_t tail[kGroupRows][16];
  for (int64_t b = begin; b < end; b += 16) {
    for (int i = 0; i < kGroupRows; ++i) {
      in[i] = rows[i] + b;
      out[i] = columns + (b - begin + i) * kGroupRows;
    }
    if (b + 16 > row_bytes) {
      for (int i = 0; i < kGroupRows; ++i) {
        std::memset(tail[i], 0, 16);
        if (b < row_bytes) std::memcpy(tail[i], in[i], static_cast<size_t>(row_bytes - b));
        in[i] = tail[i];
      }
    }
    Transpose(in, out);
  }
}

// Columns [bytes][16] -> the first `rows` of 16 rows.
void FromColumns(const uint8_t* columns, int64_t bytes, uint8_t* out, int64_t stride, int rows) {
  const uint8_t* in[kGroupRows];
  uint8_t* to[kGroupRows];
  uint8_t spare[kGroupRows][16];
  for (int64_t b = 0; b < bytes; b += 16) {
    const bool whole = b + 16 <= bytes;
    for (int i = 0; i < kGroupRows; ++i) {
      in[i] = columns + (b + i) * kGroupRows;
      to[i] = whole && i < rows ? out + i * stride + b : spare[i];
    }
    Transpose(in, to);
    if (whole) continue;
    for (int i = 0; i < rows; ++i)
      std::memcpy(out + i * stride + b, spare[i], static_cast<size_t>(bytes - b));
  }
}

// Columns of pixels 2k and 2k+1 -> [pair][channel][16 rows] of two 16-bit values.
void WidenPairs(const uint8_t* columns, int pairs, int16_t* widened) {
  const hn::Full128<uint8_t> d8;
  const hn::Full128<int16_t> d16;
  const auto zero = hn::Zero(d8);
  for (int i = 0; i < pairs; ++i) {
    for (int c = 0; c < 3; ++c) {
      const auto left = hn::LoadU(d8, columns + (i * 6 + c) * kGroupRows);
      const auto right = hn::LoadU(d8, columns + (i * 6 + 3 + c) * kGroupRows);
      const auto lower = hn::InterleaveLower(d8, left, right);
      const auto upper = hn::InterleaveUpper(d8, left, right);
      int16_t* out = widened + (i * 3 + c) * 2 * kGroupRows;
      hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d8, lower, zero)), d16, out);
      hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d8, lower, zero)), d16, out + 8);
      hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d8, upper, zero)), d16, out + 16);
      hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d8, upper, zero)), d16, out + 24);
    }
  }
}

// Two halves of weights in every 32-bit lane.
template <class D16>
HWY_INLINE hn::Vec<D16> SetPair(D16 d16, const std::array<int16_t, 2>& halves) {
  int32_t both = 0;
  std::memcpy(&both, halves.data(), sizeof both);
  return hn::BitCast(d16, hn::Set(hn::RepartitionToWide<D16>(), both));
}

// A vector of sums in halves; the odd ones take a part where the instruction needs two sums.
template <class D32>
struct Sums {
  using D16 = hn::Repartition<int16_t, D32>;
  hn::Vec<D32> high;
  hn::Vec<D32> high_odd;
  hn::Vec<D32> low;
  hn::Vec<D32> low_odd;

  HWY_INLINE void Add(hn::Vec<D16> pixels, hn::Vec<D16> high_pair, hn::Vec<D16> low_pair) {
    high = hn::ReorderWidenMulAccumulate(D32(), pixels, high_pair, high, high_odd);
    low = hn::ReorderWidenMulAccumulate(D32(), pixels, low_pair, low, low_odd);
  }

  HWY_INLINE hn::Vec<D32> Rounded() const {
    const auto whole =
        hn::Add(hn::ShiftLeft<detail::kLowBits>(hn::RearrangeToOddPlusEven(high, high_odd)),
                hn::RearrangeToOddPlusEven(low, low_odd));
    return hn::ShiftRight<kWeightBits>(hn::Add(whole, hn::Set(D32(), 1 << (kWeightBits - 1))));
  }
};

template <class D32>
HWY_INLINE Sums<D32> ZeroSums(D32 d32) {
  const auto zero = hn::Zero(d32);
  return {zero, zero, zero, zero};
}

// One output pixel of 16 rows: `widened` from its first pair on -> three columns of 16 bytes.
HWY_INLINE void FilterColumns(const int16_t* widened, const detail::WeightPair* weights, int pairs,
                              uint8_t* columns) {
  const hn::CappedTag<int32_t, kGroupRows> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const hn::Rebind<uint8_t, decltype(d32)> d8;
  const int lanes = static_cast<int>(hn::Lanes(d32));
  for (int row = 0; row < kGroupRows; row += lanes) {
    auto red = ZeroSums(d32), green = red, blue = red;
    const int16_t* in = widened + 2 * row;
    for (int i = 0; i < pairs; ++i, in += 6 * kGroupRows) {
      const auto high = SetPair(d16, weights[i].high);
      const auto low = SetPair(d16, weights[i].low);
      red.Add(hn::LoadU(d16, in), high, low);
      green.Add(hn::LoadU(d16, in + 2 * kGroupRows), high, low);
      blue.Add(hn::LoadU(d16, in + 4 * kGroupRows), high, low);
    }
    uint8_t* out = columns + row;
    hn::StoreU(hn::DemoteTo(d8, red.Rounded()), d8, out);
    hn::StoreU(hn::DemoteTo(d8, green.Rounded()), d8, out + kGroupRows);
    hn::StoreU(hn::DemoteTo(d8, blue.Rounded()), d8, out + 2 * kGroupRows);
  }
}

// Rows [row_begin, row_end) of `source`, outputs [x_begin, x_end) -> `out`, rows `stride` apart.
void ResizeHorizontally(const detail::SourcePixels& source, const detail::PairAxis& axis,
                        int x_begin, int x_end, int row_begin, int row_end, uint8_t* out,
                        int64_t stride) {
  int most_pairs = 0;
  for (int x = x_begin; x < x_end; x += kStripPx)
    most_pairs = std::max(
        most_pairs,
        (axis.end(std::min(x + kStripPx, x_end) - 1) - axis.first[static_cast<size_t>(x)]) / 2);
  // Transposing goes in steps of 16 columns, so up to 15 more are written and read.
  std::vector<uint8_t> columns(static_cast<size_t>(most_pairs * 6 + 15) * kGroupRows);
  std::vector<int16_t> widened(static_cast<size_t>(most_pairs) * 6 * kGroupRows);
  std::vector<uint8_t> results(static_cast<size_t>(kStripPx * 3 + 15) * kGroupRows);

  const int64_t row_bytes = int64_t{source.columns} * 3;
  for (int row = row_begin; row < row_end; row += kGroupRows) {
    const uint8_t* rows[kGroupRows];
    for (int i = 0; i < kGroupRows; ++i) rows[i] = source.row(std::min(row + i, row_end - 1));
    for (int x = x_begin; x < x_end; x += kStripPx) {
      const int strip_end = std::min(x + kStripPx, x_end);
      const int first_px = axis.first[static_cast<size_t>(x)];
      const int end_px = axis.end(strip_end - 1);
      ToColumns(rows, int64_t{first_px - source.first_px} * 3,
                int64_t{end_px - source.first_px} * 3, row_bytes, columns.data());
      WidenPairs(columns.data(), (end_px - first_px) / 2, widened.data());
      for (int i = x; i < strip_end; ++i)
        FilterColumns(
            widened.data() + (axis.first[static_cast<size_t>(i)] - first_px) / 2 * 6 * kGroupRows,
            axis.weights(i), axis.count[static_cast<size_t>(i)],
            results.data() + (i - x) * 3 * kGroupRows);
      FromColumns(results.data(), int64_t{strip_end - x} * 3,
                  out + (row - row_begin) * stride + int64_t{x - x_begin} * 3, stride,
                  std::min(kGroupRows, row_end - row));
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
