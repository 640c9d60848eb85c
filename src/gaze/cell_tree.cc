// SPDX-License-Identifier: Apache-2.0
#include "gaze/cell_tree.h"

#include <algorithm>

namespace fovea {

CellTree::CellTree(Size canvas) {
  const int levels = level_count(canvas);
  grids_.reserve(static_cast<size_t>(levels));
  for (int level = 0; level < levels; ++level) grids_.push_back(grid_at(canvas, level));
}

Children CellTree::children(const Cell& cell) const {
  Children children;
  if (cell.level == 0) return children;
  const Grid fine = grid(cell.level - 1);
  const int row_end = std::min(cell.row * 2 + 2, fine.rows);
  const int col_end = std::min(cell.col * 2 + 2, fine.cols);
  for (int row = cell.row * 2; row < row_end; ++row)
    for (int col = cell.col * 2; col < col_end; ++col)
      children.cells[static_cast<size_t>(children.count++)] = {cell.level - 1, row, col};
  return children;
}

CellBlock CellTree::block(const Cell& cell) const {
  const auto end = [&](int index, int size) {
    return static_cast<int>(std::min<int64_t>((int64_t{index} + 1) << cell.level, size));
  };
  return {cell.row << cell.level, end(cell.row, grid(0).rows), cell.col << cell.level,
          end(cell.col, grid(0).cols)};
}

std::vector<Cell> CellTree::cells_of(int level) const {
  std::vector<Cell> cells;
  cells.reserve(static_cast<size_t>(grid(level).cells()));
  for (int row = 0; row < grid(level).rows; ++row)
    for (int col = 0; col < grid(level).cols; ++col) cells.push_back({level, row, col});
  return cells;
}

int CellTree::glance_level(int budget_tokens) const {
  for (int level = 0; level < levels(); ++level)
    if (grid(level).cells() * 3 <= int64_t{budget_tokens} * 2) return level;
  return levels() - 1;
}

}  // namespace fovea
