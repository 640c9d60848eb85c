// SPDX-License-Identifier: Apache-2.0
// top-k: the level-0 cells with the highest relevance, and nothing else. A baseline: it covers
// nothing and takes ten cells of one thing before the first of the next.
#include <algorithm>
#include <cstdint>

#include "gaze/makers.h"

namespace fovea {

std::vector<Cell> top_k_plan(const Scene& scene) {
  const Map& relevance = *scene.relevance;
  const size_t count = std::min(relevance.score.size(), static_cast<size_t>(scene.budget_tokens));
  // One number orders a cell: the higher score first, then the earlier place.
  std::vector<uint64_t> keys(relevance.score.size());
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] = (uint64_t{UINT16_MAX} - relevance.score[i]) << 32 | i;
  if (count < keys.size())
    std::nth_element(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(count), keys.end());

  std::vector<Cell> cells;
  cells.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const int place = static_cast<int>(keys[i] & UINT32_MAX);
    cells.push_back({0, place / relevance.grid.cols, place % relevance.grid.cols});
  }
  return cells;
}

}  // namespace fovea
