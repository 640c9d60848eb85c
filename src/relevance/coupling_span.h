// SPDX-License-Identifier: Apache-2.0
// Which canvas pixels a row or column of a map covers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fovea/words.h"

namespace fovea {

struct PxSpan {
  double begin_px = 0;
  double end_px = 0;
};

inline double shared(const PxSpan& a, const PxSpan& b) {
  return std::max(0.0, std::min(a.end_px, b.end_px) - std::max(a.begin_px, b.begin_px));
}

// Cell `index` of a level, cut off where the canvas ends.
inline PxSpan level_span(int index, int level, int side_px) {
  const int64_t cell_px = int64_t{kCellPx} << level;
  return {static_cast<double>(index * cell_px),
          static_cast<double>(std::min<int64_t>((index + 1) * cell_px, side_px))};
}

// Part `index` of `parts` equal ones.
inline PxSpan stretched_span(int index, int parts, int side_px) {
  return {static_cast<double>(index) * side_px / parts,
          static_cast<double>(index + 1) * side_px / parts};
}

// The level whose grid this is, or -1. No two levels of a canvas have the same grid.
inline int level_of(Grid grid, Size canvas) {
  for (int level = 0; level < level_count(canvas); ++level)
    if (grid_at(canvas, level) == grid) return level;
  return -1;
}

inline PxSpan given_row_span(Grid grid, int row, Size canvas) {
  const int level = level_of(grid, canvas);
  return level >= 0 ? level_span(row, level, canvas.height_px)
                    : stretched_span(row, grid.rows, canvas.height_px);
}

inline PxSpan given_col_span(Grid grid, int col, Size canvas) {
  const int level = level_of(grid, canvas);
  return level >= 0 ? level_span(col, level, canvas.width_px)
                    : stretched_span(col, grid.cols, canvas.width_px);
}

}  // namespace fovea
