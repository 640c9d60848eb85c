// SPDX-License-Identifier: Apache-2.0
// cortical: sharp at the fixations, coarser outwards, as the visual cortex spends its area.
//
//   M(e) = M0 / (e + e0)        magnification at eccentricity e
//   wanted level = -log2 M(e)   + a global bias that meets the budget
//
// e is the distance from the nearest fixation to the nearest point of a cell, as a share of the
// canvas's longer side. A cell of level l is split where the level wanted at that point is finer
// than l:
//
//   l > log2((e + e0) / M0) + bias   <=>   2^l / (e + e0) > 2^bias / M0
//
// The left side is the cell's size on the cortex, so a plan for a bias is what remains when every
// cell larger than some size is split. A child is half as large as its parent and no nearer, so it
// never comes before it, and splitting the largest cell first passes through the plans of all
// biases in order: it stops at the bias that bisection would close in on, with ties resolved by the
// order of a plan. It needs no logarithm, and IEEE 754 defines every bit of a quotient and a square
// root, so every device gives the same plan.
//
// e0: from a fixation (e = 0) to a longer side's distance (e = 1) the levels span log2((1 + e0) /
// e0). With e0 = 0.5 that is 1.6 levels; a 1024x1024 canvas has 6 levels, a span of 5. e0 =
// 2^-(levels - 1) gives log2(1 + 2^(levels - 1)): 5.04 for 1024x1024 (e0 = 1/32), 9.00 for
// 13,000x13,000 (e0 = 1/512). In canvas pixels it is 16 to 32, within one level-0 cell: the fovea
// is as sharp as the pyramid.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gaze/cell_tree.h"
#include "gaze/makers.h"
#include "gaze/split.h"

namespace fovea {
namespace {

// How far `place` lies outside [begin, end].
double gap_px(double place, int64_t begin, int64_t end) {
  return std::max({static_cast<double>(begin) - place, place - static_cast<double>(end), 0.0});
}

double distance_px(const Cell& cell, const Point& point) {
  const int64_t side = cell.side_px();
  const double x = gap_px(point.x_px, cell.col * side, (cell.col + 1) * side);
  const double y = gap_px(point.y_px, cell.row * side, (cell.row + 1) * side);
  return std::sqrt(x * x + y * y);
}

}  // namespace

std::vector<Cell> cortical_plan(const Scene& scene) {
  const CellTree tree(scene.canvas);
  const double longer_px = std::max(scene.canvas.width_px, scene.canvas.height_px);
  const double e0_px = scene.params.cortical_e0 > 0
                           ? scene.params.cortical_e0 * longer_px
                           : longer_px / static_cast<double>(int64_t{1} << (tree.levels() - 1));
  const std::vector<Point> fixations =
      scene.fixations.empty()
          ? find_fixations(*scene.relevance, scene.canvas, scene.params.fixation_count)
          : scene.fixations;
  const auto size_on_cortex = [&](const Cell& cell) {
    double nearest_px = std::numeric_limits<double>::infinity();
    for (const Point& fixation : fixations)
      nearest_px = std::min(nearest_px, distance_px(cell, fixation));
    return cell.side_px() / (nearest_px + e0_px);
  };
  return split_best_first(tree, {tree.root()}, scene.budget_tokens, size_on_cortex);
}

}  // namespace fovea
