// SPDX-License-Identifier: Apache-2.0
// thresholds: relevance above 0.8 is read at level 0, above 0.5 at level 1, above 0.2 at level 2,
// the rest at level 3; a coarse cell is split where any of its level-0 cells wants a finer level.
//
// With a budget all thresholds move by the same number of cells in the order of relevance (a shift
// by quantile). A cell of level l with highest relevance m is split where
//
//   cells below m  -  cells at or below threshold[l - 1]  >=  shift
//
// which for a shift of 0 is m > threshold[l - 1]. Levels beyond 3 have no threshold to cross, so
// theirs go on below 0 in steps of 0.3 of all cells, the distance of 0.8, 0.5 and 0.2: without a
// shift they are always split, and on a large canvas with a small budget the levels still follow
// relevance. A child's left side is never above its parent's, so splitting the largest first gives
// the plans of all shifts in order and stops at the one that meets the budget. Whole numbers
// throughout.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "gaze/cell_tree.h"
#include "gaze/makers.h"
#include "gaze/split.h"

namespace fovea {
namespace {

// The highest score under every cell of every level: [levels][rows * cols].
std::vector<std::vector<uint16_t>> highest_scores(const CellTree& tree, const Map& relevance) {
  std::vector<std::vector<uint16_t>> highest(static_cast<size_t>(tree.levels()));
  highest[0] = relevance.score;
  for (int level = 1; level < tree.levels(); ++level) {
    const Grid coarse = tree.grid(level);
    const Grid fine = tree.grid(level - 1);
    const std::vector<uint16_t>& from = highest[static_cast<size_t>(level - 1)];
    std::vector<uint16_t>& to = highest[static_cast<size_t>(level)];
    to.assign(static_cast<size_t>(coarse.cells()), 0);
    for (int row = 0; row < fine.rows; ++row) {
      const uint16_t* from_row = from.data() + static_cast<size_t>(row) * fine.cols;
      uint16_t* to_row = to.data() + static_cast<size_t>(row / 2) * coarse.cols;
      for (int col = 0; col < fine.cols; ++col)
        to_row[col / 2] = std::max(to_row[col / 2], from_row[col]);
    }
  }
  return highest;
}

}  // namespace

std::vector<Cell> thresholds_plan(const Scene& scene) {
  const CellTree tree(scene.canvas);
  const std::vector<std::vector<uint16_t>> highest = highest_scores(tree, *scene.relevance);

  std::vector<uint16_t> sorted = scene.relevance->score;
  std::sort(sorted.begin(), sorted.end());
  const auto cells_below = [&](uint16_t score) {
    return std::lower_bound(sorted.begin(), sorted.end(), score) - sorted.begin();
  };
  const auto cells_up_to = [&](double score) {
    return std::upper_bound(sorted.begin(), sorted.end(), score) - sorted.begin();
  };
  std::vector<int64_t>
      limit;  // [level - 1]: the cells that must lie below one that splits that level
  limit.reserve(scene.params.thresholds.size());
  for (const double threshold : scene.params.thresholds)
    limit.push_back(cells_up_to(threshold * UINT16_MAX));
  for (int beyond = 1; static_cast<int>(limit.size()) < tree.levels(); ++beyond)
    limit.push_back(-tree.grid(0).cells() * 3 * beyond / 10);
  const auto above_limit = [&](const Cell& cell) {
    const auto level = static_cast<size_t>(cell.level);
    const size_t place = static_cast<size_t>(cell.row) * tree.grid(cell.level).cols + cell.col;
    return cells_below(highest[level][place]) - limit[level - 1];
  };
  if (scene.budget_tokens == 0)
    return split_best_first(tree, {tree.root()}, std::numeric_limits<int64_t>::max(), above_limit,
                            [](int64_t above) { return above >= 0; });
  return split_best_first(tree, {tree.root()}, scene.budget_tokens, above_limit);
}

}  // namespace fovea
