// SPDX-License-Identifier: Apache-2.0
#include "relevance/information.h"

#include <cmath>

#include "base/check.h"
#include "relevance/information_cpu.h"

namespace fovea {

const std::array<uint32_t, kCellPx * kCellPx + 1>& plogp_table() {
  static const auto table = [] {
    std::array<uint32_t, kCellPx * kCellPx + 1> values{};
    // From 2 on: 0 log 0 and 1 log 1 are both 0. Only powers of two are exact, all others are
    // irrational and so never near enough to a half for a libm's last bit to matter.
    for (size_t n = 2; n < values.size(); ++n) {
      const auto count = static_cast<double>(n);
      values[n] = static_cast<uint32_t>(std::lround(count * std::log2(count) * 65536.0));
    }
    return values;
  }();
  return table;
}

Map measure_information(Threads& threads, const LevelView& level) {
  FOVEA_CHECK(level.rgb != nullptr && level.size.pixels() > 0);
  Map map(grid_at(level.size, 0));
  const int64_t blocks = (map.grid.cols + kInformationBlockCells - 1) / kInformationBlockCells;
  threads.for_each(map.grid.rows * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item)
      measure_information_block(level, static_cast<int>(item / blocks),
                                static_cast<int>(item % blocks) * kInformationBlockCells, map);
  });
  return map;
}

}  // namespace fovea
