// SPDX-License-Identifier: Apache-2.0
#include "gaze/makers.h"

namespace fovea {

// Tries every level from the coarsest on and keeps the last that fits.
std::vector<Cell> uniform_plan_reference(const Scene& scene) {
  std::vector<Cell> best;
  for (int level = level_count(scene.canvas) - 1; level >= 0; --level) {
    std::vector<Cell> cells;
    const int side_px = kCellPx << level;
    for (int y_px = 0; y_px < scene.canvas.height_px; y_px += side_px)
      for (int x_px = 0; x_px < scene.canvas.width_px; x_px += side_px)
        cells.push_back({level, y_px / side_px, x_px / side_px});
    const bool fits =
        scene.budget_tokens == 0 || cells.size() <= static_cast<size_t>(scene.budget_tokens);
    if (fits) best = cells;
  }
  return best;
}

}  // namespace fovea
