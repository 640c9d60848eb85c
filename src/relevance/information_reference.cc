// SPDX-License-Identifier: Apache-2.0
#include "relevance/information.h"
#include "relevance/luma.h"

namespace fovea {

Map measure_information_reference(const LevelView& level) {
  Map map(grid_at(level.size, 0));
  for (int row = 0; row < map.grid.rows; ++row) {
    for (int col = 0; col < map.grid.cols; ++col) {
      std::array<uint32_t, kInformationBins> count{};
      uint32_t pixels = 0;
      for (int y = row * kCellPx; y < std::min((row + 1) * kCellPx, level.size.height_px); ++y) {
        for (int x = col * kCellPx; x < std::min((col + 1) * kCellPx, level.size.width_px); ++x) {
          ++count[static_cast<size_t>(luma_of(level.row(y) + 3 * x) >> kInformationShift)];
          ++pixels;
        }
      }
      uint32_t sum = 0;
      for (const uint32_t n : count) sum += plogp_table()[n];
      map.at(row, col) = information_score(pixels, sum);
    }
  }
  return map;
}

}  // namespace fovea
