// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "gaze/makers.h"
#include "gaze/split_reference.h"

namespace fovea {

// Counts cells wherever a count is needed.
std::vector<Cell> thresholds_plan_reference(const Scene& scene) {
  const Map& relevance = *scene.relevance;
  const auto limit = [&](int level) {
    if (level > 3) return -(3 * relevance.grid.cells() * (level - 3) / 10);
    int64_t up_to = 0;
    for (const uint16_t score : relevance.score)
      if (score <= scene.params.thresholds[static_cast<size_t>(level - 1)] * 65535) ++up_to;
    return up_to;
  };
  const auto above_limit = [&](const Cell& cell) {
    uint16_t highest = 0;
    const int side = 1 << cell.level;
    for (int row = cell.row * side; row < std::min((cell.row + 1) * side, relevance.grid.rows);
         ++row)
      for (int col = cell.col * side; col < std::min((cell.col + 1) * side, relevance.grid.cols);
           ++col)
        highest = std::max(highest, relevance.at(row, col));
    int64_t below = 0;
    for (const uint16_t score : relevance.score)
      if (score < highest) ++below;
    return below - limit(cell.level);
  };
  const bool no_budget = scene.budget_tokens == 0;
  const int64_t budget_tokens =
      no_budget ? std::numeric_limits<int64_t>::max() : int64_t{scene.budget_tokens};
  return split_best_first_reference(scene.canvas, {Cell{level_count(scene.canvas) - 1, 0, 0}},
                                    budget_tokens, above_limit,
                                    [&](int64_t above) { return !no_budget || above >= 0; });
}

}  // namespace fovea
