// SPDX-License-Identifier: Apache-2.0
// The two passes of the resize over tiles whose intermediate rows stay in the second-level cache.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "pyramid/resize.h"
#include "pyramid/resize_pairs.h"

// Arrays of vectors need a vector size that is known when compiling.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pyramid/resize_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "pyramid/resize_columns-inl.h"

#ifndef FOVEA_RESIZE_CPU_ONCE
#define FOVEA_RESIZE_CPU_ONCE
namespace fovea {
namespace {

struct ResizeJob {
  const Image* image = nullptr;
  Image* out = nullptr;
  const detail::PairAxis* horizontal = nullptr;  // null: the width is kept
  const detail::PairAxis* vertical = nullptr;    // null: the height is kept
};

// Outputs [x_begin, x_end) x [y_begin, y_end).
struct Tile {
  int x_begin = 0;
  int x_end = 0;
  int y_begin = 0;
  int y_end = 0;
};

// The rows the vertical pass reads: `count` of them from input row `first` on.
struct SourceRows {
  const uint8_t* data = nullptr;
  int64_t stride = 0;
  int first = 0;
  int count = 0;

  // A pair's second row may lie below the last; its weight is zero then.
  const uint8_t* at(int row) const { return data + std::min(row - first, count - 1) * stride; }
};

}  // namespace
}  // namespace fovea
#endif  // FOVEA_RESIZE_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

// A vector of output bytes from byte `b` on: the lanes are neighbouring bytes, a pair is two rows.
HWY_INLINE void FilterRows(const uint8_t* const* rows, const detail::WeightPair* weights, int pairs,
                           int precision_bits, int64_t b, uint8_t* out) {
  const hn::ScalableTag<uint8_t> d8;
  const hn::Repartition<int16_t, decltype(d8)> d16;
  const hn::Repartition<int32_t, decltype(d8)> d32;
  const auto zero = hn::Zero(d8);
  auto sum0 = hn::Zero(d32), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  auto odd0 = sum0, odd1 = sum0, odd2 = sum0, odd3 = sum0;
  for (int i = 0; i < pairs; ++i) {
    const auto weight = SetPair(d16, weights[i]);
    const auto upper_row = hn::LoadU(d8, rows[2 * i] + b);
    const auto lower_row = hn::LoadU(d8, rows[2 * i + 1] + b);
    const auto lower = hn::InterleaveLower(d8, upper_row, lower_row);
    const auto upper = hn::InterleaveUpper(d8, upper_row, lower_row);
    const auto pair0 = hn::BitCast(d16, hn::InterleaveLower(d8, lower, zero));
    const auto pair1 = hn::BitCast(d16, hn::InterleaveUpper(d8, lower, zero));
    const auto pair2 = hn::BitCast(d16, hn::InterleaveLower(d8, upper, zero));
    const auto pair3 = hn::BitCast(d16, hn::InterleaveUpper(d8, upper, zero));
    sum0 = hn::ReorderWidenMulAccumulate(d32, pair0, weight, sum0, odd0);
    sum1 = hn::ReorderWidenMulAccumulate(d32, pair1, weight, sum1, odd1);
    sum2 = hn::ReorderWidenMulAccumulate(d32, pair2, weight, sum2, odd2);
    sum3 = hn::ReorderWidenMulAccumulate(d32, pair3, weight, sum3, odd3);
  }
  const auto half = hn::Set(d32, 1 << (precision_bits - 1));
  const auto round = [&](auto even, auto odd) HWY_ATTR {
    return hn::ShiftRightSame(hn::Add(hn::RearrangeToOddPlusEven(even, odd), half), precision_bits);
  };
  // Narrowing two vectors into one undoes, block by block, what interleaving their halves did.
  const auto narrow = [&](auto low, auto high) HWY_ATTR {
    const auto both = hn::ReorderDemote2To(d16, low, high);
    return hn::Min(hn::Max(both, hn::Zero(d16)), hn::Set(d16, int16_t{255}));
  };
  const auto low = narrow(round(sum0, odd0), round(sum1, odd1));
  const auto high = narrow(round(sum2, odd2), round(sum3, odd3));
  alignas(16) static constexpr uint8_t kEven[16] = {0,    2,    4,    6,    8,    10,   12,   14,
                                                    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
  alignas(16) static constexpr uint8_t kEvenAbove[16] = {
      0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 2, 4, 6, 8, 10, 12, 14};
  const auto bytes =
      hn::Or(hn::TableLookupBytesOr0(hn::BitCast(d8, low), hn::LoadDup128(d8, kEven)),
             hn::TableLookupBytesOr0(hn::BitCast(d8, high), hn::LoadDup128(d8, kEvenAbove)));
  hn::StoreU(bytes, d8, out + b);
}

#endif  // HWY_TARGET != HWY_SCALAR

// One row of a tile; `rows` are its taps.
void ResizeRow(const uint8_t* const* rows, const detail::PairAxis& axis, int y, int64_t bytes,
               uint8_t* out) {
  const detail::WeightPair* weights = axis.weights(y);
  const int pairs = axis.count[static_cast<size_t>(y)];
#if HWY_TARGET != HWY_SCALAR
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<uint8_t>()));
  if (bytes >= lanes) {
    for (int64_t b = 0; b + lanes <= bytes; b += lanes)
      FilterRows(rows, weights, pairs, axis.precision_bits, b, out);
    if (bytes % lanes != 0)  // some bytes twice, to the same values
      FilterRows(rows, weights, pairs, axis.precision_bits, bytes - lanes, out);
    return;
  }
#endif
  for (int64_t b = 0; b < bytes; ++b)
    out[b] = detail::weigh_pairs(weights, pairs, axis.precision_bits,
                                 [&](int tap) { return rows[tap][b]; });
}

void ResizeVertically(const SourceRows& source, const detail::PairAxis& axis, const Tile& tile,
                      Image& out) {
  std::vector<const uint8_t*> rows(static_cast<size_t>(axis.pairs) * 2);
  for (int y = tile.y_begin; y < tile.y_end; ++y) {
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = source.at(axis.first[static_cast<size_t>(y)] + static_cast<int>(i));
    ResizeRow(rows.data(), axis, y, int64_t{tile.x_end - tile.x_begin} * 3,
              out.row(y) + int64_t{tile.x_begin} * 3);
  }
}

void ResizeTile(const ResizeJob& job, const Tile& tile) {
  const int64_t bytes = int64_t{tile.x_end - tile.x_begin} * 3;
  if (job.vertical == nullptr) {
    ResizeHorizontally(*job.image, *job.horizontal, tile.x_begin, tile.x_end, tile.y_begin,
                       tile.y_end, job.out->row(tile.y_begin) + int64_t{tile.x_begin} * 3,
                       int64_t{job.out->size.width_px} * 3);
    return;
  }
  const int row_begin = job.vertical->first[static_cast<size_t>(tile.y_begin)];
  const int row_end = std::min(job.vertical->end(tile.y_end - 1), job.image->size.height_px);
  if (job.horizontal == nullptr) {
    ResizeVertically({job.image->row(row_begin) + int64_t{tile.x_begin} * 3,
                      int64_t{job.image->size.width_px} * 3, row_begin, row_end - row_begin},
                     *job.vertical, tile, *job.out);
    return;
  }
  std::vector<uint8_t> between(static_cast<size_t>(bytes) *
                               static_cast<size_t>(row_end - row_begin));
  ResizeHorizontally(*job.image, *job.horizontal, tile.x_begin, tile.x_end, row_begin, row_end,
                     between.data(), bytes);
  ResizeVertically({between.data(), bytes, row_begin, row_end - row_begin}, *job.vertical, tile,
                   *job.out);
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::detail {
namespace {

HWY_EXPORT(ResizeTile);

// A tile's rows between the passes: 144 rows are nine groups of the horizontal pass, and the few
// rows that two neighbours both compute cost 3 %.
constexpr int kTileRows = 144;
constexpr int kTilePx = 512;

// Consecutive output rows that need at most kTileRows input rows together (one row may need more).
std::vector<int> band_begins(const PairAxis* vertical, int out_rows) {
  std::vector<int> begins = {0};
  for (int y = 1; y < out_rows; ++y) {
    const int begin = begins.back();
    const bool full = y - begin >= kTileRows ||
                      (vertical != nullptr &&
                       vertical->end(y) - vertical->first[static_cast<size_t>(begin)] > kTileRows);
    if (full) begins.push_back(y);
  }
  begins.push_back(out_rows);
  return begins;
}

}  // namespace

void resize_bicubic_cpu(Threads& threads, const Image& image, const ResizeAxis& horizontal,
                        const ResizeAxis& vertical, Image& out) {
  const PairAxis columns = make_pairs(horizontal, true);
  const PairAxis rows = make_pairs(vertical, false);
  ResizeJob job{&image, &out, &columns, &rows};
  if (horizontal.in_px == horizontal.out_px) job.horizontal = nullptr;
  if (vertical.in_px == vertical.out_px) job.vertical = nullptr;
  FOVEA_CHECK(job.horizontal != nullptr || job.vertical != nullptr);

  const std::vector<int> bands = band_begins(job.vertical, out.size.height_px);
  const int64_t across = (out.size.width_px + kTilePx - 1) / kTilePx;
  threads.for_each(static_cast<int64_t>(bands.size() - 1) * across, 1, [&](int64_t index, int64_t) {
    const auto band = static_cast<size_t>(index / across);
    const int64_t column = index % across;
    const Tile tile{static_cast<int>(out.size.width_px * column / across),
                    static_cast<int>(out.size.width_px * (column + 1) / across), bands[band],
                    bands[band + 1]};
    HWY_DYNAMIC_DISPATCH(ResizeTile)(job, tile);
  });
}

}  // namespace fovea::detail
#endif  // HWY_ONCE
