// SPDX-License-Identifier: Apache-2.0
// Bins by SIMD, then counting: a histogram is a chain of loads and stores, so neighbouring pixels
// count in tables of their own and a run of equal pixels does not wait for itself.
#include "relevance/information_cpu.h"

#include <array>
#include <cstring>

#include "relevance/information.h"
#include "relevance/luma.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "relevance/information_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// bins[x] = luma of rgb[x] >> kInformationShift, for x in [0, count).
void bin_pixels(const uint8_t* HWY_RESTRICT rgb, int count, uint8_t* HWY_RESTRICT bins) {
  int x = 0;
#if HWY_TARGET != HWY_SCALAR  // where pairs of bytes are no 16-bit lanes
  const hn::ScalableTag<uint8_t> d8;
  const hn::Repartition<uint16_t, decltype(d8)> d16;
  using V8 = hn::Vec<decltype(d8)>;
  using V16 = hn::Vec<decltype(d16)>;
  const auto lanes = static_cast<int>(hn::Lanes(d8));
  const V16 low = hn::Set(d16, 0x00FF);
  const V16 half = hn::Set(d16, 128);
  // At most 255 * 256 + 128: fits 16 bits.
  const auto luma = [&](V16 r, V16 g, V16 b) {
    const V16 rg =
        hn::Add(hn::Mul(r, hn::Set(d16, kLumaRed)), hn::Mul(g, hn::Set(d16, kLumaGreen)));
    return hn::Add(hn::Add(rg, half), hn::Mul(b, hn::Set(d16, kLumaBlue)));
  };
  for (; x + lanes <= count; x += lanes) {
    V8 r8;
    V8 g8;
    V8 b8;
    hn::LoadInterleaved3(d8, rgb + static_cast<ptrdiff_t>(3) * x, r8, g8, b8);
    const V16 r = hn::BitCast(d16, r8);
    const V16 g = hn::BitCast(d16, g8);
    const V16 b = hn::BitCast(d16, b8);
    const V16 even = luma(hn::And(r, low), hn::And(g, low), hn::And(b, low));
    const V16 odd = luma(hn::ShiftRight<8>(r), hn::ShiftRight<8>(g), hn::ShiftRight<8>(b));
    const V16 both = hn::Or(hn::ShiftRight<8 + kInformationShift>(even),
                            hn::ShiftLeft<8>(hn::ShiftRight<8 + kInformationShift>(odd)));
    hn::StoreU(hn::BitCast(d8, both), d8, bins + x);
  }
#endif
  for (; x < count; ++x)
    bins[x] =
        static_cast<uint8_t>(luma_of(rgb + static_cast<ptrdiff_t>(3) * x) >> kInformationShift);
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(bin_pixels);

constexpr int kTables = 8;
constexpr int kBlockPx = kInformationBlockCells * kCellPx;
using Tables = std::array<std::array<uint16_t, kInformationBins>, kTables>;

void count_row(const uint8_t* bins, int count, Tables& tables) {
  int x = 0;
  for (; x + 8 <= count; x += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, bins + x, sizeof eight);
    for (size_t t = 0; t < kTables; ++t) ++tables[t][(eight >> (8 * t)) & 0xFF];
  }
  for (; x < count; ++x) ++tables[0][bins[x]];
}

}  // namespace

void measure_information_block(const LevelView& level, int row, int col, Map& map) {
  alignas(64) std::array<uint8_t, static_cast<size_t>(kBlockPx) * kCellPx> bins;
  const auto bin = HWY_DYNAMIC_DISPATCH(bin_pixels);
  const auto& plogp = plogp_table();
  const int x0 = col * kCellPx;
  const int y0 = row * kCellPx;
  const int width = std::min(kBlockPx, level.size.width_px - x0);
  const int height = std::min(kCellPx, level.size.height_px - y0);
  for (int y = 0; y < height; ++y)
    bin(level.row(y0 + y) + static_cast<ptrdiff_t>(3) * x0, width,
        bins.data() + static_cast<ptrdiff_t>(y) * kBlockPx);
  for (int left = 0; left < width; left += kCellPx) {
    const int count = std::min(kCellPx, width - left);
    Tables tables{};
    for (int y = 0; y < height; ++y)
      count_row(bins.data() + static_cast<ptrdiff_t>(y) * kBlockPx + left, count, tables);
    uint32_t sum = 0;
    for (size_t bin_index = 0; bin_index < kInformationBins; ++bin_index) {
      uint32_t n = 0;
      for (const auto& table : tables) n += table[bin_index];
      sum += plogp[n];
    }
    map.at(row, col + left / kCellPx) =
        information_score(static_cast<uint32_t>(count) * static_cast<uint32_t>(height), sum);
  }
}

}  // namespace fovea
#endif
