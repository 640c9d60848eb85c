// SPDX-License-Identifier: Apache-2.0
#include "engine/given_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace fovea {
namespace {

// What can be said of a given plan before its cells are looked at.
Status check_given(const GivenPlan& plan, Size canvas, int budget_tokens) {
  if (plan.canvas != Size{} && plan.canvas != canvas)
    return bad_input(fmt::format(
        "the plan was made for a canvas of {}x{} px, but this image has one of {}x{} "
        "px; make one for this image, or take \"canvas\" out of it if its cells are meant for this "
        "one",
        plan.canvas.width_px, plan.canvas.height_px, canvas.width_px, canvas.height_px));
  if (budget_tokens >= 0 && plan.tokens() > budget_tokens)
    return bad_input(
        fmt::format("the plan has {} cells, but the budget is {}; raise it, leave it out, or take "
                    "cells out of the plan",
                    with_commas(plan.tokens()), with_commas(budget_tokens)));
  return Done{};
}

Result<Plan> in_order(Plan plan, Size canvas) {
  std::sort(plan.cells.begin(), plan.cells.end());
  const auto twice = std::adjacent_find(plan.cells.begin(), plan.cells.end());
  if (twice != plan.cells.end())
    return bad_input(fmt::format("the plan has the cell [{},{},{}] twice", twice->level, twice->row,
                                 twice->col));
  if (plan.cells.empty()) return bad_input("the plan has no cells");
  for (const Cell& cell : plan.cells) {
    const bool level = cell.level >= 0 && cell.level < level_count(canvas);
    const Grid grid = level ? grid_at(canvas, cell.level) : Grid{};
    if (cell.row < 0 || cell.row >= grid.rows || cell.col < 0 || cell.col >= grid.cols)
      return bad_input(fmt::format("the plan's cell [{},{},{}] is not on the canvas of {}x{} px",
                                   cell.level, cell.row, cell.col, canvas.width_px,
                                   canvas.height_px));
  }
  if (plan.maker.empty()) plan.maker = "given";
  return plan;
}

}  // namespace

Result<Plan> settle_plan(const GivenPlan& given, Size canvas, int budget_tokens) {
  if (auto checked = check_given(given, canvas, budget_tokens); !checked) return checked.error();
  return in_order(given, canvas);
}

}  // namespace fovea
