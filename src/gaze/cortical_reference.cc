// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "gaze/makers.h"
#include "gaze/split_reference.h"

namespace fovea {

// Splits the cell that is largest on the cortex, again and again.
std::vector<Cell> cortical_plan_reference(const Scene& scene) {
  std::vector<Point> fixations = scene.fixations;
  if (fixations.empty())
    fixations = find_fixations(*scene.relevance, scene.canvas, scene.params.fixation_count);
  const int top = level_count(scene.canvas) - 1;
  const double longer_px = std::max(scene.canvas.width_px, scene.canvas.height_px);
  double e0_px = scene.params.cortical_e0 * longer_px;
  if (e0_px == 0) e0_px = longer_px / std::pow(2.0, top);

  const auto size_on_cortex = [&](const Cell& cell) {
    const double side = cell.side_px();
    double largest = 0;
    for (const Point& fixation : fixations) {
      // The point of the cell that is nearest to the fixation.
      const double x = std::clamp(fixation.x_px, cell.col * side, cell.col * side + side);
      const double y = std::clamp(fixation.y_px, cell.row * side, cell.row * side + side);
      const double dx = x - fixation.x_px;
      const double dy = y - fixation.y_px;
      largest = std::max(largest, side / (std::sqrt(dx * dx + dy * dy) + e0_px));
    }
    return largest;
  };
  return split_best_first_reference(scene.canvas, {Cell{top, 0, 0}}, scene.budget_tokens,
                                    size_on_cortex, [](double) { return true; });
}

}  // namespace fovea
