// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>

#include "gaze/makers.h"
#include "gaze/split_reference.h"

namespace fovea {

// Starts at the glance and splits the leaf with the largest mean(relevance^2) x lost, again and
// again.
std::vector<Cell> quadtree_plan_reference(const Scene& scene) {
  const Map& relevance = *scene.relevance;
  const int top = level_count(scene.canvas) - 1;
  int start = scene.params.quadtree_from_root ? top : 0;
  while (start < top && 3 * grid_at(scene.canvas, start).cells() > 2 * int64_t{scene.budget_tokens})
    ++start;
  std::vector<Cell> leaves;
  for (int row = 0; row < grid_at(scene.canvas, start).rows; ++row)
    for (int col = 0; col < grid_at(scene.canvas, start).cols; ++col)
      leaves.push_back({start, row, col});

  const auto worth = [&](const Cell& cell) {
    const int side = 1 << cell.level;
    uint64_t sum = 0;
    uint64_t count = 0;
    for (int row = cell.row * side; row < std::min((cell.row + 1) * side, relevance.grid.rows);
         ++row)
      for (int col = cell.col * side; col < std::min((cell.col + 1) * side, relevance.grid.cols);
           ++col) {
        sum += uint64_t{relevance.at(row, col)} * relevance.at(row, col);
        ++count;
      }
    // The product in two parts, high then low, as 64 bits do not hold it.
    const uint64_t mean = sum / count;  // below 2^32
    const uint64_t lost = scene.detail->at(cell);
    const uint64_t low = mean * (lost & UINT32_MAX);
    const uint64_t high = mean * (lost >> 32) + (low >> 32);
    return std::pair(high, low & UINT32_MAX);
  };
  return split_best_first_reference(scene.canvas, leaves, scene.budget_tokens, worth,
                                    [](const auto&) { return true; });
}

}  // namespace fovea
