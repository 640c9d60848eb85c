// SPDX-License-Identifier: Apache-2.0
#include "relevance/information.h"

#include <cstring>

#include "base/check.h"
#include "relevance/luma.h"

namespace fovea {
namespace {

// Cells whose lightness is computed together: 8 x 32 x 32 bytes stay in the first-level cache.
constexpr int kBlockCells = 8;
constexpr int kBlockPx = kBlockCells * kCellPx;

// A histogram is a chain of loads and stores, so neighbouring pixels count in tables of their own:
// a run of equal pixels does not wait for itself.
constexpr size_t kTables = 8;
using Tables = std::array<std::array<uint16_t, kInformationBins>, kTables>;

void count_row(const uint8_t* luma, int count, Tables& tables) {
  int x = 0;
  for (; x + 8 <= count; x += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, luma + x, sizeof eight);
    eight >>= kInformationShift;
    for (size_t t = 0; t < kTables; ++t) ++tables[t][(eight >> (8 * t)) & (kInformationBins - 1)];
  }
  for (; x < count; ++x) ++tables[0][luma[x] >> kInformationShift];
}

// Fills up to kBlockCells cells of one row of `map`, from column `col` on.
void measure_block(const LevelView& level, int row, int col, Map& map) {
  alignas(64) std::array<uint8_t, static_cast<size_t>(kBlockPx) * kCellPx> luma;
  const auto luma_at = [&](int x, int y) {
    return luma.data() + static_cast<size_t>(y) * kBlockPx + x;
  };
  const auto& plogp = plogp_table();
  const int x0 = col * kCellPx;
  const int y0 = row * kCellPx;
  const int width = std::min(kBlockPx, level.size.width_px - x0);
  const int height = std::min(kCellPx, level.size.height_px - y0);
  for (int y = 0; y < height; ++y)
    luma_row(level.row(y0 + y) + static_cast<ptrdiff_t>(3) * x0, width, luma_at(0, y));
  for (int x = 0; x < width; x += kCellPx) {
    const int count = std::min(kCellPx, width - x);
    Tables tables{};
    for (int y = 0; y < height; ++y) count_row(luma_at(x, y), count, tables);
    uint32_t sum = 0;
    for (size_t bin = 0; bin < kInformationBins; ++bin) {
      uint32_t n = 0;
      for (const auto& table : tables) n += table[bin];
      sum += plogp[n];
    }
    map.at(row, col + x / kCellPx) = information_score(static_cast<uint32_t>(count * height), sum);
  }
}

}  // namespace

const std::array<uint32_t, kCellPx * kCellPx + 1>& plogp_table() {
  static const auto table = [] {
    std::array<uint32_t, kCellPx * kCellPx + 1> values{};
    for (size_t n = 0; n < values.size(); ++n) values[n] = plogp(n);
    return values;
  }();
  return table;
}

int64_t information_blocks(Grid grid) {
  return int64_t{grid.rows} * ((grid.cols + kBlockCells - 1) / kBlockCells);
}

void measure_information_blocks(const LevelView& level, int64_t begin, int64_t end, Map& map) {
  const int64_t per_row = (map.grid.cols + kBlockCells - 1) / kBlockCells;
  for (int64_t block = begin; block < end; ++block)
    measure_block(level, static_cast<int>(block / per_row),
                  static_cast<int>(block % per_row) * kBlockCells, map);
}

Map measure_information(Threads& threads, const LevelView& level) {
  FOVEA_CHECK(level.rgb != nullptr && level.size.pixels() > 0);
  Map map(grid_at(level.size, 0));
  threads.for_each(information_blocks(map.grid), 1, [&](int64_t begin, int64_t end) {
    measure_information_blocks(level, begin, end, map);
  });
  return map;
}

}  // namespace fovea
