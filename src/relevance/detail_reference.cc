// SPDX-License-Identifier: Apache-2.0
#include "relevance/detail.h"

namespace fovea {

Detail measure_detail_reference(const Pyramid& pyramid) {
  const Size canvas = pyramid.canvas();
  Detail detail;
  for (int k = 0; k < pyramid.levels(); ++k) {
    detail.grid.push_back(grid_at(canvas, k));
    detail.lost.emplace_back(static_cast<size_t>(detail.grid.back().cells()));
    if (k == 0) continue;
    const Grid grid = detail.grid.back();
    std::vector<uint64_t>& lost = detail.lost.back();
    const LevelView children = pyramid.level(k - 1);
    const LevelView parents = pyramid.level(k);
    for (int y = 0; y < children.size.height_px; ++y) {
      for (int x = 0; x < children.size.width_px; ++x) {
        const uint64_t area =
            covered_px(x, k - 1, canvas.width_px) * covered_px(y, k - 1, canvas.height_px);
        uint64_t& cell = lost[static_cast<size_t>(y / 2 / kCellPx) * grid.cols + x / 2 / kCellPx];
        for (int c = 0; c < 3; ++c) {
          const int step = children.row(y)[3 * x + c] - parents.row(y / 2)[3 * (x / 2) + c];
          cell += area * static_cast<uint64_t>(step * step);
        }
      }
    }
    const Grid finer = detail.grid[static_cast<size_t>(k) - 1];
    for (int row = 0; row < finer.rows; ++row)
      for (int col = 0; col < finer.cols; ++col)
        lost[static_cast<size_t>(row / 2) * grid.cols + col / 2] += detail.at({k - 1, row, col});
  }
  return detail;
}

}  // namespace fovea
