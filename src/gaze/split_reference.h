// SPDX-License-Identifier: Apache-2.0
// The specification of split_best_first: scan all leaves, split the best that fits, start again.
#pragma once

#include <vector>

#include "fovea/words.h"

namespace fovea {

inline std::vector<Cell> children_reference(Size canvas, const Cell& cell) {
  std::vector<Cell> children;
  for (int row = cell.row * 2; row <= cell.row * 2 + 1; ++row) {
    for (int col = cell.col * 2; col <= cell.col * 2 + 1; ++col) {
      const Cell child{cell.level - 1, row, col};
      const bool inside = int64_t{row} * child.side_px() < canvas.height_px &&
                          int64_t{col} * child.side_px() < canvas.width_px;
      if (inside) children.push_back(child);
    }
  }
  return children;
}

// worth_of(cell) gives any ordered value; wanted(value) says whether such a leaf may be split.
template <class WorthOf, class Wanted>
std::vector<Cell> split_best_first_reference(Size canvas, std::vector<Cell> leaves,
                                             int64_t budget_tokens, const WorthOf& worth_of,
                                             const Wanted& wanted) {
  for (;;) {
    int best = -1;
    for (int i = 0; i < static_cast<int>(leaves.size()); ++i) {
      const Cell& leaf = leaves[i];
      if (leaf.level == 0 || !wanted(worth_of(leaf))) continue;
      const auto grown =
          static_cast<int64_t>(leaves.size() - 1 + children_reference(canvas, leaf).size());
      if (grown > budget_tokens) continue;
      if (best < 0 || worth_of(leaf) > worth_of(leaves[best]) ||
          (worth_of(leaf) == worth_of(leaves[best]) && leaf < leaves[best]))
        best = i;
    }
    if (best < 0) return leaves;
    const std::vector<Cell> children = children_reference(canvas, leaves[best]);
    leaves.erase(leaves.begin() + best);
    leaves.insert(leaves.end(), children.begin(), children.end());
  }
}

}  // namespace fovea
