// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "gaze/makers.h"
#include "gaze/regions.h"
#include "gaze/split_reference.h"

namespace fovea {

// Region by region: the cells that lie inside it while their parents do not, splits by detail lost,
// and the most relevant level-0 cells for the tokens that remain.
std::vector<Cell> proportional_plan_reference(const Scene& scene) {
  const Map& relevance = *scene.relevance;
  const CellTree tree(scene.canvas);
  const std::vector<CellBlock> regions = region_blocks(tree, scene.budget_tokens);
  std::vector<double> means;
  for (const CellBlock& region : regions) {
    double sum = 0;
    for (int row = region.row_begin; row < region.row_end; ++row)
      for (int col = region.col_begin; col < region.col_end; ++col) sum += relevance.at(row, col);
    means.push_back(sum / (static_cast<double>(region.cells()) * 65535));
  }
  const TokenLimits limits = token_limits(regions, scene.budget_tokens);
  const std::vector<int64_t> tokens = share_tokens_reference(
      softmax_weights(means, scene.params.temperature), limits.bounds, limits.total);

  std::vector<Cell> plan;
  for (size_t i = 0; i < regions.size(); ++i) {
    const auto inside = [&](const Cell& cell) { return regions[i].holds(tree.block(cell)); };
    std::vector<Cell> cells;
    for (int level = 0; level < tree.levels(); ++level)
      for (const Cell& cell : tree.cells_of(level))
        if (inside(cell) &&
            (level + 1 == tree.levels() || !inside({level + 1, cell.row / 2, cell.col / 2})))
          cells.push_back(cell);
    cells = split_best_first_reference(
        scene.canvas, cells, tokens[i], [&](const Cell& cell) { return scene.detail->at(cell); },
        [](uint64_t) { return true; });
    while (static_cast<int64_t>(cells.size()) < tokens[i]) {
      Cell best{-1, 0, 0};
      for (const Cell& cell : tree.cells_of(0)) {
        if (!inside(cell) || std::find(cells.begin(), cells.end(), cell) != cells.end()) continue;
        if (best.level < 0 || relevance.at(cell.row, cell.col) > relevance.at(best.row, best.col))
          best = cell;
      }
      cells.push_back(best);
    }
    plan.insert(plan.end(), cells.begin(), cells.end());
  }
  return plan;
}

}  // namespace fovea
