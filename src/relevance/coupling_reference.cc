// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "relevance/coupling.h"
#include "relevance/coupling_span.h"

namespace fovea {

Map couple_map_reference(const Map& given, Size canvas, int level) {
  Map map(grid_at(canvas, level));
  for (int row = 0; row < map.grid.rows; ++row) {
    for (int col = 0; col < map.grid.cols; ++col) {
      const PxSpan y = level_span(row, level, canvas.height_px);
      const PxSpan x = level_span(col, level, canvas.width_px);
      double sum = 0;
      double weight = 0;
      for (int r = 0; r < given.grid.rows; ++r) {
        for (int c = 0; c < given.grid.cols; ++c) {
          const double shared_px = shared(y, given_row_span(given.grid, r, canvas)) *
                                   shared(x, given_col_span(given.grid, c, canvas));
          sum += shared_px * given.at(r, c);
          weight += shared_px;
        }
      }
      map.at(row, col) = static_cast<uint16_t>(std::min(65535.0, sum / weight + 0.5));
    }
  }
  return map;
}

}  // namespace fovea
