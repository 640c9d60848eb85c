// SPDX-License-Identifier: Apache-2.0
// quadtree: start at the glance and always split the leaf that loses most where it matters, until
// the budget is spent; every pixel is covered exactly once.
//
// What a leaf loses is the squared error of its pixels, each error weighted by the relevance of
// its place: sum (relevance x error)^2. Detail holds the error of a whole cell, so it is taken as
// spread evenly: worth = mean(relevance^2) x lost, a product of whole numbers in 128 bits.
// Squaring both makes relevance and detail weigh alike. Measured on 100 photographs with the
// fixations of 15 people each, a budget of 96, and entropy + spectral residual x centre as
// relevance: 18 % of the fixations fall in level-0 cells, against 13 % for mean(relevance) x lost,
// and the error there falls from 10.4 to 10.0 of 255. The mean of squares also keeps one relevant
// cell in a large dull one from vanishing.
//
// The start: nothing is read coarser than the glance, so that a place that seemed dull can still
// be recognised. Starting at the root instead (GazeParams::quadtree_from_root) moves those tokens
// to the relevant places: it lowers the error at the fixations by 2 % at a budget of 96, and by 4
// % where the glance takes all of its 2/3.
#include <cstdint>

#include "gaze/cell_tree.h"
#include "gaze/makers.h"
#include "gaze/split.h"

namespace fovea {
namespace {

__extension__ typedef unsigned __int128 Worth;  // NOLINT(modernize-use-using)

// The mean of relevance^2 (below 2^32) of every cell of levels 1..top: [levels][rows * cols], level
// 0 empty, as it is never split.
std::vector<std::vector<uint64_t>> mean_squares(const CellTree& tree, const Map& relevance,
                                                int top) {
  std::vector<std::vector<uint64_t>> sums(static_cast<size_t>(top) + 1);
  for (int level = 1; level <= top; ++level) {
    const Grid coarse = tree.grid(level);
    const Grid fine = tree.grid(level - 1);
    std::vector<uint64_t>& to = sums[static_cast<size_t>(level)];
    to.assign(static_cast<size_t>(coarse.cells()), 0);
    for (int row = 0; row < fine.rows; ++row) {
      uint64_t* to_row = to.data() + static_cast<size_t>(row / 2) * coarse.cols;
      const size_t start = static_cast<size_t>(row) * fine.cols;
      if (level == 1) {
        const uint16_t* score = relevance.score.data() + start;
        for (int col = 0; col < fine.cols; ++col)
          to_row[col / 2] += uint64_t{score[col]} * score[col];
      } else {
        const uint64_t* from = sums[static_cast<size_t>(level - 1)].data() + start;
        for (int col = 0; col < fine.cols; ++col) to_row[col / 2] += from[col];
      }
    }
  }
  for (int level = 1; level <= top; ++level) {
    size_t place = 0;
    for (int row = 0; row < tree.grid(level).rows; ++row)
      for (int col = 0; col < tree.grid(level).cols; ++col, ++place)
        sums[static_cast<size_t>(level)][place] /=
            static_cast<uint64_t>(tree.block({level, row, col}).cells());
  }
  return sums;
}

}  // namespace

std::vector<Cell> quadtree_plan(const Scene& scene) {
  const CellTree tree(scene.canvas);
  const int start =
      scene.params.quadtree_from_root ? tree.levels() - 1 : tree.glance_level(scene.budget_tokens);
  const std::vector<std::vector<uint64_t>> weight = mean_squares(tree, *scene.relevance, start);
  const auto worth = [&](const Cell& cell) {
    const size_t place = static_cast<size_t>(cell.row) * tree.grid(cell.level).cols + cell.col;
    return Worth{weight[static_cast<size_t>(cell.level)][place]} * scene.detail->at(cell);
  };
  return split_best_first(tree, tree.cells_of(start), scene.budget_tokens, worth);
}

}  // namespace fovea
