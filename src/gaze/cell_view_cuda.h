// SPDX-License-Identifier: Apache-2.0
// The cells of a canvas, or of a region of it, as one list in the order of a plan: what a kernel
// knows a cell by is its index there, which is also its place among equals.
#pragma once

#include "device/cuda/kernel.h"
#include "fovea/words.h"
#include "gaze/block_cuda.h"
#include "gaze/cell_tree.h"
#include "gaze/device_plans.h"
#include "pyramid/pyramid.h"

namespace fovea {

// Of each level up to `top`, the cells whose upper left corner lies in the region: every cell of
// the canvas is in the view of one region.
struct CellView {
  Grid canvas;  // level-0 cells
  CellBlock region;
  int top = 0;    // the coarsest level of the view
  int count = 0;  // of cells
  int inner = 0;  // of those that are not level 0; they come first
  int row[kMaxLevels] = {};
  int col[kMaxLevels] = {};
  int rows[kMaxLevels] = {};
  int cols[kMaxLevels] = {};
  int first[kMaxLevels] = {};  // the index of the first cell of the level

  __host__ __device__ int cells(int level) const { return rows[level] * cols[level]; }
  __host__ __device__ Cell at(int level, int place) const {
    return {level, row[level] + place / cols[level], col[level] + place % cols[level]};
  }
  __host__ __device__ int index(const Cell& cell) const {
    return first[cell.level] + (cell.row - row[cell.level]) * cols[cell.level] + cell.col -
           col[cell.level];
  }
  __host__ __device__ int level_of(int its_index) const {
    int level = top;
    while (its_index >= first[level] + cells(level)) --level;
    return level;
  }
  __host__ __device__ static int upper(int index, int level, int size) {
    const int64_t end = (int64_t{index} + 1) << level;
    return end < size ? static_cast<int>(end) : size;
  }
  // How many level-0 cells lie under a cell.
  __host__ __device__ int under(const Cell& cell) const {
    return (upper(cell.row, cell.level, canvas.rows) - (cell.row << cell.level)) *
           (upper(cell.col, cell.level, canvas.cols) - (cell.col << cell.level));
  }
  // All of the cell lies in the region.
  __host__ __device__ bool holds(const Cell& cell) const {
    return cell.level <= top && cell.row << cell.level >= region.row_begin &&
           cell.col << cell.level >= region.col_begin &&
           upper(cell.row, cell.level, canvas.rows) <= region.row_end &&
           upper(cell.col, cell.level, canvas.cols) <= region.col_end;
  }
  // The largest cells that the region holds: together they cover it.
  __host__ __device__ bool starts(const Cell& cell) const {
    return holds(cell) && !holds({cell.level + 1, cell.row / 2, cell.col / 2});
  }
};

__host__ __device__ inline int halved(int value, int times) {
  return static_cast<int>((int64_t{value} + (int64_t{1} << times) - 1) >> times);
}

__host__ __device__ inline void fill_view(Grid canvas, const CellBlock& region, int top,
                                          CellView& view) {
  view.canvas = canvas;
  view.region = region;
  view.top = top;
  view.count = 0;
  for (int level = top; level >= 0; --level) {
    view.row[level] = halved(region.row_begin, level);
    view.col[level] = halved(region.col_begin, level);
    view.rows[level] = halved(region.row_end, level) - view.row[level];
    view.cols[level] = halved(region.col_end, level) - view.col[level];
    view.first[level] = view.count;
    if (level == 0) view.inner = view.count;
    view.count += view.cells(level);
  }
}

inline CellView view_of(Size canvas, int top) {
  CellView view;
  const Grid grid = grid_at(canvas, 0);
  fill_view(grid, {0, grid.rows, 0, grid.cols}, top, view);
  return view;
}

// As CellTree::glance_level.
inline int glance_level_of(Size canvas, int budget_tokens) {
  const int top = level_count(canvas) - 1;
  int level = 0;
  while (level < top && grid_at(canvas, level).cells() * 3 > int64_t{budget_tokens} * 2) ++level;
  return level;
}

// What a cell of a view is to a plan.
inline constexpr uint8_t kAbsent = 0;
inline constexpr uint8_t kLeaf = 1;   // in the plan
inline constexpr uint8_t kSplit = 2;  // its children are

// Writes the cells for which `chosen(index)` holds, in order, after the first `from`. Each thread
// takes a run of the list, so one sum over the threads tells it where its cells go.
template <class Chosen>
__device__ void write_cells(BlockTeam& team, const CellView& view, int begin, int end,
                            const Chosen& chosen, int from, Cell* cells, int room, int* count) {
  const int run = ceil_div(end - begin, BlockTeam::threads());
  const int my_begin = begin + min(BlockTeam::thread() * run, end - begin);
  const int my_end = min(my_begin + run, end);
  int mine = 0;
  for (int i = my_begin; i < my_end; ++i) mine += chosen(i) ? 1 : 0;
  int total = 0;
  int to = from + team.sum_before(mine, total);
  if (BlockTeam::thread() == 0) *count = min(from + total, room);
  if (mine == 0) return;
  int level = view.level_of(my_begin);
  for (int i = my_begin; i < my_end; ++i) {
    while (i >= view.first[level] + view.cells(level)) --level;
    if (!chosen(i)) continue;
    if (to < room) cells[to] = view.at(level, i - view.first[level]);
    ++to;
  }
}

}  // namespace fovea
