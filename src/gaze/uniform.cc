// SPDX-License-Identifier: Apache-2.0
// uniform: one level for the whole canvas, the finest the budget allows; level 0 without a budget.
#include "gaze/cell_tree.h"
#include "gaze/makers.h"

namespace fovea {

std::vector<Cell> uniform_plan(const Scene& scene) {
  const CellTree tree(scene.canvas);
  int level = 0;
  // The top has one cell, so this ends for any budget of 1 or more.
  while (scene.budget_tokens > 0 && tree.grid(level).cells() > scene.budget_tokens) ++level;
  return tree.cells_of(level);
}

}  // namespace fovea
