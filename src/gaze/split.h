// SPDX-License-Identifier: Apache-2.0
// The greedy step that cortical, thresholds, quadtree and proportional share.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "gaze/cell_tree.h"

namespace fovea {

// Replaces leaves by their children, always the leaf with the largest worth (ties in the order of a
// plan), until no split fits the budget. A leaf whose split does not fit stays; a smaller split at
// the canvas's edge, where a cell has one to three children, may still fit after it, so the plan
// ends at the largest count these splits can reach. Leaves with `wanted(worth)` false are never
// split.
template <class WorthOf, class Wanted>
std::vector<Cell> split_best_first(const CellTree& tree, const std::vector<Cell>& start,
                                   int64_t budget_tokens, const WorthOf& worth_of,
                                   const Wanted& wanted) {
  using Worth = decltype(worth_of(Cell{}));
  struct Leaf {
    Worth worth;
    Cell cell;
    bool operator<(const Leaf& other) const {
      if (worth != other.worth) return worth < other.worth;
      return other.cell < cell;
    }
  };
  std::vector<Cell> done;
  std::vector<Leaf> heap;
  const auto add = [&](const Cell& cell) {
    if (cell.level == 0) {
      done.push_back(cell);
      return;
    }
    const Worth worth = worth_of(cell);
    if (!wanted(worth)) {
      done.push_back(cell);
      return;
    }
    heap.push_back({worth, cell});
  };
  for (const Cell& cell : start) add(cell);
  std::make_heap(heap.begin(), heap.end());

  int64_t left_tokens = budget_tokens - static_cast<int64_t>(start.size());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Cell cell = heap.back().cell;
    heap.pop_back();
    const Children children = tree.children(cell);
    if (children.added() > left_tokens) {
      done.push_back(cell);
      continue;
    }
    left_tokens -= children.added();
    for (const Cell& child : children) {
      const size_t before = heap.size();
      add(child);
      if (heap.size() > before) std::push_heap(heap.begin(), heap.end());
    }
  }
  return done;
}

template <class WorthOf>
std::vector<Cell> split_best_first(const CellTree& tree, const std::vector<Cell>& start,
                                   int64_t budget_tokens, const WorthOf& worth_of) {
  return split_best_first(tree, start, budget_tokens, worth_of, [](const auto&) { return true; });
}

}  // namespace fovea
