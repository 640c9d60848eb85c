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
  bool vertical_first = false;
};

// Outputs [x_begin, x_end) x [y_begin, y_end).
struct Tile {
  int x_begin = 0;
  int x_end = 0;
  int y_begin = 0;
  int y_end = 0;
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
                           int64_t b, uint8_t* out) {
  const hn::ScalableTag<uint8_t> d8;
  const hn::Repartition<int16_t, decltype(d8)> d16;
  const hn::Repartition<int32_t, decltype(d8)> d32;
  const auto zero = hn::Zero(d8);
  auto sum0 = ZeroSums(d32), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int i = 0; i < pairs; ++i) {
    const auto high_pair = SetPair(d16, weights[i].high);
    const auto low_pair = SetPair(d16, weights[i].low);
    const auto upper_row = hn::LoadU(d8, rows[2 * i] + b);
    const auto lower_row = hn::LoadU(d8, rows[2 * i + 1] + b);
    const auto lower = hn::InterleaveLower(d8, upper_row, lower_row);
    const auto upper = hn::InterleaveUpper(d8, upper_row, lower_row);
    sum0.Add(hn::BitCast(d16, hn::InterleaveLower(d8, lower, zero)), high_pair, low_pair);
    sum1.Add(hn::BitCast(d16, hn::InterleaveUpper(d8, lower, zero)), high_pair, low_pair);
    sum2.Add(hn::BitCast(d16, hn::InterleaveLower(d8, upper, zero)), high_pair, low_pair);
    sum3.Add(hn::BitCast(d16, hn::InterleaveUpper(d8, upper, zero)), high_pair, low_pair);
  }
  // Narrowing two vectors into one undoes, block by block, what interleaving their halves did.
  const auto narrow = [&](auto low, auto high) HWY_ATTR {
    const auto both = hn::ReorderDemote2To(d16, low, high);
    return hn::Min(hn::Max(both, hn::Zero(d16)), hn::Set(d16, int16_t{255}));
  };
  const auto low = narrow(sum0.Rounded(), sum1.Rounded());
  const auto high = narrow(sum2.Rounded(), sum3.Rounded());
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
    for (int64_t b = 0; b + lanes <= bytes; b += lanes) FilterRows(rows, weights, pairs, b, out);
    if (bytes % lanes != 0)  // some bytes twice, to the same values
      FilterRows(rows, weights, pairs, bytes - lanes, out);
    return;
  }
#endif
  for (int64_t b = 0; b < bytes; ++b)
    out[b] = detail::weigh_pairs(weights, pairs, [&](int tap) { return rows[tap][b]; });
}

// Columns [x_begin, x_end) of `source`, outputs [y_begin, y_end) -> `out`, rows `stride` apart.
void ResizeVertically(const detail::SourcePixels& source, const detail::PairAxis& axis, int x_begin,
                      int x_end, int y_begin, int y_end, uint8_t* out, int64_t stride) {
  std::vector<const uint8_t*> rows(static_cast<size_t>(axis.pairs) * 2);
  for (int y = y_begin; y < y_end; ++y, out += stride) {
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = source.pixel(x_begin, axis.first[static_cast<size_t>(y)] + static_cast<int>(i));
    ResizeRow(rows.data(), axis, y, int64_t{x_end - x_begin} * 3, out);
  }
}

void ResizeTile(const ResizeJob& job, const Tile& tile) {
  const auto [x_begin, x_end, y_begin, y_end] = tile;
  const detail::PairAxis* horizontal = job.horizontal;
  const detail::PairAxis* vertical = job.vertical;
  const Size size = job.image->size;
  const detail::SourcePixels image{
      job.image->rgb.data(), int64_t{size.width_px} * 3, 0, size.height_px, 0, size.width_px};
  uint8_t* out = job.out->row(y_begin) + int64_t{x_begin} * 3;
  const int64_t stride = int64_t{job.out->size.width_px} * 3;
  if (vertical == nullptr)
    return ResizeHorizontally(image, *horizontal, x_begin, x_end, y_begin, y_end, out, stride);
  if (horizontal == nullptr)
    return ResizeVertically(image, *vertical, x_begin, x_end, y_begin, y_end, out, stride);

  // The rows and columns the second pass reads, of which the first one makes those of this tile.
  detail::SourcePixels between{nullptr, 0, y_begin, y_end - y_begin, x_begin, x_end - x_begin};
  if (job.vertical_first) {
    between.first_px = horizontal->first[static_cast<size_t>(x_begin)];
    between.columns = std::min(horizontal->end(x_end - 1), size.width_px) - between.first_px;
  } else {
    between.first_row = vertical->first[static_cast<size_t>(y_begin)];
    between.rows = std::min(vertical->end(y_end - 1), size.height_px) - between.first_row;
  }
  between.stride = int64_t{between.columns} * 3;
  std::vector<uint8_t> pixels(static_cast<size_t>(between.stride * between.rows));
  between.data = pixels.data();
  if (job.vertical_first) {
    ResizeVertically(image, *vertical, between.first_px, between.first_px + between.columns,
                     y_begin, y_end, pixels.data(), between.stride);
    ResizeHorizontally(between, *horizontal, x_begin, x_end, y_begin, y_end, out, stride);
  } else {
    ResizeHorizontally(image, *horizontal, x_begin, x_end, between.first_row,
                       between.first_row + between.rows, pixels.data(), between.stride);
    ResizeVertically(between, *vertical, x_begin, x_end, y_begin, y_end, out, stride);
  }
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
  ResizeJob job{&image, &out, &columns, &rows, vertical_first(image.size, out.size)};
  if (horizontal.in_px == horizontal.out_px) job.horizontal = nullptr;
  if (vertical.in_px == vertical.out_px) job.vertical = nullptr;
  FOVEA_CHECK(job.horizontal != nullptr || job.vertical != nullptr);

  // Only rows between the passes are computed twice, where bands meet.
  const std::vector<int> bands =
      band_begins(job.vertical_first ? nullptr : job.vertical, out.size.height_px);
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
