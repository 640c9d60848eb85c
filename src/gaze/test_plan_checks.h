// SPDX-License-Identifier: Apache-2.0
// What must hold for every plan; tests and the bench use it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "gaze/cell_tree.h"
#include "gaze/gaze.h"

namespace fovea {

// How many tokens a maker that does not stop early must use: all of the budget while cells are
// left.
inline int64_t tokens_to_fill(MakerKind maker, const CellTree& tree, int budget_tokens) {
  const int64_t cells = tree.grid(0).cells();
  if (maker != MakerKind::kGlanceLook) return std::min<int64_t>(budget_tokens, cells);
  const int glance = tree.glance_level(budget_tokens);
  if (glance == 0) return cells;
  return std::min<int64_t>(budget_tokens, tree.grid(glance).cells() + cells);
}

// How often each level-0 cell is covered.
inline std::vector<int> coverage(const CellTree& tree, const std::vector<Cell>& cells) {
  const Grid grid = tree.grid(0);
  std::vector<int> covered(static_cast<size_t>(grid.cells()), 0);
  for (const Cell& cell : cells) {
    const CellBlock block = tree.block(cell);
    for (int row = block.row_begin; row < block.row_end; ++row)
      for (int col = block.col_begin; col < block.col_end; ++col)
        ++covered[static_cast<size_t>(row) * grid.cols + col];
  }
  return covered;
}

// True where no cell of an exactly-once plan could be split without passing the budget: the largest
// count its splits can reach.
inline bool no_split_fits(const CellTree& tree, const Plan& plan) {
  return std::none_of(plan.cells.begin(), plan.cells.end(), [&](const Cell& cell) {
    return cell.level > 0 && plan.tokens() + tree.children(cell).added() <= plan.budget_tokens;
  });
}

// What is wrong with a plan, or an empty string.
inline std::string plan_fault(const PlanMaker& maker, const Scene& scene, const Plan& plan) {
  const CellTree tree(scene.canvas);
  const bool budget = scene.budget_tokens > 0;
  if (plan.maker != maker.name() || plan.budget_tokens != scene.budget_tokens) return "wrong label";
  if (plan.cells.empty()) return "no cells";
  if (budget && plan.tokens() > scene.budget_tokens)
    return fmt::format("{} tokens of {}", plan.tokens(), scene.budget_tokens);
  for (size_t i = 0; i < plan.cells.size(); ++i) {
    const Cell& cell = plan.cells[i];
    const bool exists = cell.level >= 0 && cell.level < tree.levels() && cell.row >= 0 &&
                        cell.row < tree.grid(cell.level).rows && cell.col >= 0 &&
                        cell.col < tree.grid(cell.level).cols;
    if (!exists || (i > 0 && !(plan.cells[i - 1] < cell)))
      return fmt::format("cell {} ({},{},{}) is {}", i, cell.level, cell.row, cell.col,
                         exists ? "out of order or there twice" : "outside the canvas");
  }
  if (maker.covers) {
    const std::vector<int> covered = coverage(tree, plan.cells);
    for (size_t i = 0; i < covered.size(); ++i)
      if (covered[i] < 1 || (maker.exactly_once && covered[i] > 1))
        return fmt::format("level-0 cell {} is covered {} times", i, covered[i]);
  }
  if (!budget) return "";
  if (maker.kind == MakerKind::kUniform) {
    const int level = plan.cells.front().level;
    if (level > 0 && tree.grid(level - 1).cells() <= scene.budget_tokens)
      return fmt::format("level {} fits too", level - 1);
  } else if (maker.exactly_once) {
    if (!no_split_fits(tree, plan)) return fmt::format("stops early at {}", plan.tokens());
  } else if (plan.tokens() != tokens_to_fill(maker.kind, tree, scene.budget_tokens)) {
    return fmt::format("{} tokens instead of {}", plan.tokens(),
                       tokens_to_fill(maker.kind, tree, scene.budget_tokens));
  }
  return "";
}

}  // namespace fovea
