// SPDX-License-Identifier: Apache-2.0
// The cells of a canvas as a quadtree: one cell at the top, level 0 at the bottom.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fovea/words.h"

namespace fovea {

// The cells one level finer that lie under a cell; those outside the canvas do not exist.
struct Children {
  std::array<Cell, 4> cells;
  int count = 0;

  const Cell* begin() const { return cells.data(); }
  const Cell* end() const { return cells.data() + count; }
  // How many tokens a plan grows by when the children take their parent's place.
  int added() const { return count - 1; }
};

// A rectangle of level-0 cells.
struct CellBlock {
  int row_begin = 0, row_end = 0;
  int col_begin = 0, col_end = 0;

  constexpr int64_t cells() const { return int64_t{row_end - row_begin} * (col_end - col_begin); }
  bool holds(const CellBlock& other) const {
    return other.row_begin >= row_begin && other.row_end <= row_end &&
           other.col_begin >= col_begin && other.col_end <= col_end;
  }
  bool touches(const CellBlock& other) const {
    return other.row_begin < row_end && other.row_end > row_begin && other.col_begin < col_end &&
           other.col_end > col_begin;
  }
};

class CellTree {
 public:
  explicit CellTree(Size canvas);

  int levels() const { return static_cast<int>(grids_.size()); }
  Grid grid(int level) const { return grids_[static_cast<size_t>(level)]; }
  Cell root() const { return {levels() - 1, 0, 0}; }
  Children children(const Cell& cell) const;
  CellBlock block(const Cell& cell) const;      // the level-0 cells under a cell
  std::vector<Cell> cells_of(int level) const;  // in the order of a plan
  // The finest level that takes at most 2/3 of the budget; the top where even that takes more.
  int glance_level(int budget_tokens) const;

 private:
  std::vector<Grid> grids_;
};

}  // namespace fovea
