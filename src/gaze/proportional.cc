// SPDX-License-Identifier: Apache-2.0
// proportional: the canvas is a grid of regions; a softmax over their mean relevance shares the
// budget out, 64 to 400 tokens each. Within a region relevance has spoken, so the tokens go where
// detail would be lost: from the largest cells that lie inside it on, the leaf that loses most is
// split until the region's tokens are spent. Where detail is even, that is one level: 20x20, 16x16,
// 12x12 or 8x8 cells for 400, 256, 144 or 64 tokens in a region of such a shape. A split adds
// three, so a token or two may remain; they read the region's most relevant level-0 cells on top of
// the coarser ones.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "gaze/cell_tree.h"
#include "gaze/makers.h"
#include "gaze/regions.h"
#include "gaze/split.h"

namespace fovea {
namespace {

// In [0,1]. The sum is exact: below 2^53 for any canvas that fits in memory.
double mean_relevance(const Map& relevance, const CellBlock& region) {
  uint64_t sum = 0;
  for (int row = region.row_begin; row < region.row_end; ++row)
    for (int col = region.col_begin; col < region.col_end; ++col) sum += relevance.at(row, col);
  return static_cast<double>(sum) / (static_cast<double>(region.cells()) * UINT16_MAX);
}

// The largest cells that lie wholly inside the region and together cover it.
void collect_largest(const CellTree& tree, const CellBlock& region, const Cell& cell,
                     std::vector<Cell>& cells) {
  const CellBlock block = tree.block(cell);
  if (!region.touches(block)) return;
  if (region.holds(block)) {
    cells.push_back(cell);
    return;
  }
  for (const Cell& child : tree.children(cell)) collect_largest(tree, region, child, cells);
}

// Adds the `count` most relevant level-0 cells of the region that are not among `cells`.
void add_most_relevant(const Map& relevance, const CellBlock& region, int64_t count,
                       std::vector<Cell>& cells) {
  const int cols = region.col_end - region.col_begin;
  std::vector<bool> read(static_cast<size_t>(region.cells()));
  const auto place = [&](int row, int col) {
    return static_cast<size_t>(row - region.row_begin) * cols + (col - region.col_begin);
  };
  for (const Cell& cell : cells)
    if (cell.level == 0) read[place(cell.row, cell.col)] = true;
  std::vector<std::pair<int, Cell>> best;  // (-relevance, cell): the smallest pair comes first
  for (int row = region.row_begin; row < region.row_end; ++row) {
    for (int col = region.col_begin; col < region.col_end; ++col) {
      if (read[place(row, col)]) continue;
      const std::pair<int, Cell> next{-int{relevance.at(row, col)}, {0, row, col}};
      if (static_cast<int64_t>(best.size()) == count && !(next < best.back())) continue;
      best.insert(std::upper_bound(best.begin(), best.end(), next), next);
      if (static_cast<int64_t>(best.size()) > count) best.pop_back();
    }
  }
  for (const auto& [order, cell] : best) cells.push_back(cell);
}

}  // namespace

std::vector<Cell> proportional_plan(const Scene& scene) {
  const CellTree tree(scene.canvas);
  const std::vector<CellBlock> regions = region_blocks(tree, scene.budget_tokens);
  std::vector<double> relevance;
  relevance.reserve(regions.size());
  for (const CellBlock& region : regions)
    relevance.push_back(mean_relevance(*scene.relevance, region));
  const TokenLimits limits = token_limits(regions, scene.budget_tokens);
  const std::vector<int64_t> tokens = share_tokens(
      softmax_weights(relevance, scene.params.temperature), limits.bounds, limits.total);

  std::vector<Cell> plan;
  for (size_t i = 0; i < regions.size(); ++i) {
    std::vector<Cell> cells;
    collect_largest(tree, regions[i], tree.root(), cells);
    cells = split_best_first(tree, cells, tokens[i],
                             [&](const Cell& cell) { return scene.detail->at(cell); });
    const int64_t left_tokens = tokens[i] - static_cast<int64_t>(cells.size());
    if (left_tokens > 0) add_most_relevant(*scene.relevance, regions[i], left_tokens, cells);
    plan.insert(plan.end(), cells.begin(), cells.end());
  }
  return plan;
}

}  // namespace fovea
