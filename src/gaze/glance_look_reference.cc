// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "gaze/makers.h"

namespace fovea {

// Measures every cell that is left for every cell it takes.
std::vector<Cell> make_look_reference(const Scene& scene, int64_t tokens,
                                      std::span<const Cell> seen) {
  const Map& relevance = *scene.relevance;
  const GazeParams& params = scene.params;
  Map chosen(relevance.grid);
  Map closed(relevance.grid);
  for (const Cell& cell : seen)
    if (cell.level == 0) closed.at(cell.row, cell.col) = 1;
  std::vector<Cell> look;
  while (static_cast<int64_t>(look.size()) < tokens) {
    double best_gain = -1;
    Cell best;
    for (int row = 0; row < relevance.grid.rows; ++row) {
      for (int col = 0; col < relevance.grid.cols; ++col) {
        int neighbours = 0;
        int nearby = 0;
        for (int r = std::max(row - 3, 0); r <= std::min(row + 3, relevance.grid.rows - 1); ++r) {
          for (int c = std::max(col - 3, 0); c <= std::min(col + 3, relevance.grid.cols - 1); ++c) {
            nearby += chosen.at(r, c);
            if (std::abs(r - row) + std::abs(c - col) == 1) neighbours += chosen.at(r, c);
          }
        }
        const double gain = relevance.at(row, col) *
                            (1 + params.neighbour_bonus * std::min(neighbours, 2)) /
                            (1 + params.crowding * nearby);
        if (closed.at(row, col) != 0 || gain <= best_gain) continue;
        best_gain = gain;
        best = {0, row, col};
      }
    }
    if (best_gain < 0) break;
    chosen.at(best.row, best.col) = closed.at(best.row, best.col) = 1;
    look.push_back(best);
  }
  std::sort(look.begin(), look.end());
  return look;
}

std::vector<Cell> glance_look_plan_reference(const Scene& scene) {
  int level = 0;
  while (level + 1 < level_count(scene.canvas) &&
         3 * grid_at(scene.canvas, level).cells() > 2 * int64_t{scene.budget_tokens})
    ++level;
  const Grid grid = grid_at(scene.canvas, level);
  std::vector<Cell> plan;
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) plan.push_back({level, row, col});
  if (level == 0) return plan;
  for (const Cell& cell : make_look_reference(scene, scene.budget_tokens - grid.cells()))
    plan.push_back(cell);
  return plan;
}

}  // namespace fovea
