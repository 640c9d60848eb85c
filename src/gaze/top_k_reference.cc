// SPDX-License-Identifier: Apache-2.0
#include "gaze/makers.h"

namespace fovea {

// Takes the best cell that is left, one after the other; the earlier cell where two are equal.
std::vector<Cell> top_k_plan_reference(const Scene& scene) {
  const Map& relevance = *scene.relevance;
  Map taken(relevance.grid);
  std::vector<Cell> cells;
  while (static_cast<int>(cells.size()) < scene.budget_tokens) {
    int best_score = -1;
    Cell best;
    for (int row = 0; row < relevance.grid.rows; ++row) {
      for (int col = 0; col < relevance.grid.cols; ++col) {
        if (taken.at(row, col) != 0 || relevance.at(row, col) <= best_score) continue;
        best_score = relevance.at(row, col);
        best = {0, row, col};
      }
    }
    if (best_score < 0) break;
    taken.at(best.row, best.col) = 1;
    cells.push_back(best);
  }
  return cells;
}

}  // namespace fovea
