// SPDX-License-Identifier: Apache-2.0
// The greedy step that cortical, thresholds, quadtree and proportional share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gaze/cell_tree.h"

namespace fovea {

// A heap of leaves, the one with the largest worth on top; ties in the order of a plan.
template <class WorthOf, class Wanted>
class Leaves {
 public:
  Leaves(const CellTree& tree, const WorthOf& worth_of, const Wanted& wanted)
      : tree_(tree), worth_of_(worth_of), wanted_(wanted) {}

  bool empty() const { return heap_.empty(); }

  void add(const Cell& cell) {
    if (cell.level > 0) {
      const Worth worth = worth_of_(cell);
      if (wanted_(worth)) {
        heap_.push_back({worth, cell});
        std::push_heap(heap_.begin(), heap_.end());
        return;
      }
    }
    done_.push_back(cell);
  }

  Cell take_best() {
    std::pop_heap(heap_.begin(), heap_.end());
    const Cell cell = heap_.back().cell;
    heap_.pop_back();
    return cell;
  }

  void keep(const Cell& cell) { done_.push_back(cell); }

  // Keeps every leaf whose split would add more than `left_tokens`.
  void keep_what_is_too_large(int64_t left_tokens) {
    const auto rest = std::partition(heap_.begin(), heap_.end(), [&](const Leaf& leaf) {
      return tree_.children(leaf.cell).added() <= left_tokens;
    });
    for (auto leaf = rest; leaf != heap_.end(); ++leaf) done_.push_back(leaf->cell);
    heap_.erase(rest, heap_.end());
    std::make_heap(heap_.begin(), heap_.end());
  }

  std::vector<Cell>& done() { return done_; }

 private:
  using Worth = decltype(std::declval<WorthOf>()(Cell{}));
  struct Leaf {
    Worth worth;
    Cell cell;
    bool operator<(const Leaf& other) const {
      if (worth != other.worth) return worth < other.worth;
      return other.cell < cell;
    }
  };

  const CellTree& tree_;
  const WorthOf& worth_of_;
  const Wanted& wanted_;
  std::vector<Leaf> heap_;
  std::vector<Cell> done_;
};

// Replaces leaves by their children, always the leaf with the largest worth, until no split fits
// the budget. A leaf whose split does not fit stays; a smaller split at the canvas's edge, where a
// cell has one to three children, may still fit after it, so the plan ends at the largest count
// these splits can reach. Leaves with `wanted(worth)` false are never split.
template <class WorthOf, class Wanted>
std::vector<Cell> split_best_first(const CellTree& tree, const std::vector<Cell>& start,
                                   int64_t budget_tokens, const WorthOf& worth_of,
                                   const Wanted& wanted) {
  constexpr int kLargestSplit = 3;
  Leaves<WorthOf, Wanted> leaves(tree, worth_of, wanted);
  for (const Cell& cell : start) leaves.add(cell);
  int64_t left_tokens = budget_tokens - static_cast<int64_t>(start.size());
  bool few_left = false;
  while (!leaves.empty()) {
    if (left_tokens < kLargestSplit && !few_left) {
      // To find the few at the edge that still fit one by one would take as long as all before.
      few_left = true;
      leaves.keep_what_is_too_large(left_tokens);
      continue;
    }
    const Cell cell = leaves.take_best();
    const Children children = tree.children(cell);
    if (children.added() > left_tokens) {
      leaves.keep(cell);
      continue;
    }
    left_tokens -= children.added();
    for (const Cell& child : children) leaves.add(child);
  }
  return std::move(leaves.done());
}

template <class WorthOf>
std::vector<Cell> split_best_first(const CellTree& tree, const std::vector<Cell>& start,
                                   int64_t budget_tokens, const WorthOf& worth_of) {
  return split_best_first(tree, start, budget_tokens, worth_of, [](const auto&) { return true; });
}

}  // namespace fovea
