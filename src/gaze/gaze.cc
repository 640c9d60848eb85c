// SPDX-License-Identifier: Apache-2.0
#include "gaze/gaze.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "gaze/makers.h"

namespace fovea {
namespace {

constexpr PlanMaker kPlanMakers[] = {
    {.kind = MakerKind::kUniform,
     .description = "the finest level that fits the budget; level 0 without one",
     .make = uniform_plan,
     .reference = uniform_plan_reference,
     .covers = true,
     .exactly_once = true,
     .without_budget = true,
     .needs_relevance = false,
     .needs_detail = false},
    {.kind = MakerKind::kCortical,
     .description = "sharp at the fixations, coarser outwards",
     .make = cortical_plan,
     .reference = cortical_plan_reference,
     .covers = true,
     .exactly_once = true,
     .without_budget = false,
     .needs_relevance = true,
     .needs_detail = false},
    {.kind = MakerKind::kThresholds,
     .description = "levels 0 to 3 by relevance, shifted to meet the budget",
     .make = thresholds_plan,
     .reference = thresholds_plan_reference,
     .covers = true,
     .exactly_once = true,
     .without_budget = true,
     .needs_relevance = true,
     .needs_detail = false},
    {.kind = MakerKind::kProportional,
     .description = "regions share the budget by relevance, 64 to 400 tokens each",
     .make = proportional_plan,
     .reference = proportional_plan_reference,
     .covers = true,
     .exactly_once = false,
     .without_budget = false,
     .needs_relevance = true,
     .needs_detail = true},
    {.kind = MakerKind::kQuadtree,
     .description = "splits the cell that loses most relevant detail until the budget is spent",
     .make = quadtree_plan,
     .reference = quadtree_plan_reference,
     .covers = true,
     .exactly_once = true,
     .without_budget = false,
     .needs_relevance = true,
     .needs_detail = true},
    {.kind = MakerKind::kTopK,
     .description = "the most relevant level-0 cells alone",
     .make = top_k_plan,
     .reference = top_k_plan_reference,
     .covers = false,
     .exactly_once = false,
     .without_budget = false,
     .needs_relevance = true,
     .needs_detail = false},
    {.kind = MakerKind::kGlanceLook,
     .description = "a coarse cover and the best level-0 cells on top of it",
     .make = glance_look_plan,
     .reference = glance_look_plan_reference,
     .covers = true,
     .exactly_once = false,
     .without_budget = false,
     .needs_relevance = true,
     .needs_detail = false},
};

constexpr bool is_ordered() {
  for (size_t i = 0; i < std::size(kPlanMakers); ++i)
    if (static_cast<size_t>(kPlanMakers[i].kind) != i) return false;
  return std::size(kPlanMakers) == std::size(kMakerNames);
}
static_assert(is_ordered(), "kPlanMakers has the order of MakerKind");

const PlanMaker& maker_of(MakerKind kind) { return kPlanMakers[static_cast<size_t>(kind)]; }

// A programmer's mistake, unlike what check_request finds.
void check_scene(const PlanMaker& maker, const Scene& scene) {
  FOVEA_CHECK(scene.canvas.width_px > 0 && scene.canvas.height_px > 0);
  FOVEA_CHECK(!maker.needs_relevance || scene.relevance != nullptr);
  FOVEA_CHECK(!maker.needs_detail || scene.detail != nullptr);
  if (scene.relevance != nullptr) {
    FOVEA_CHECK(scene.relevance->grid == grid_at(scene.canvas, 0));
    FOVEA_CHECK(static_cast<int64_t>(scene.relevance->score.size()) ==
                scene.relevance->grid.cells());
  }
  if (scene.detail == nullptr) return;
  const auto levels = static_cast<size_t>(level_count(scene.canvas));
  FOVEA_CHECK(scene.detail->grid.size() == levels && scene.detail->lost.size() == levels);
  for (size_t level = 0; level < levels; ++level) {
    const Grid grid = grid_at(scene.canvas, static_cast<int>(level));
    FOVEA_CHECK(scene.detail->grid[level] == grid);
    FOVEA_CHECK(static_cast<int64_t>(scene.detail->lost[level].size()) == grid.cells());
  }
}

Status check_params(const GazeParams& params) {
  // NaN fails every comparison, so each test asks for what is good.
  if (params.fixation_count < 1)
    return bad_input(
        fmt::format("a plan with {} fixations: give 1 or more", params.fixation_count));
  if (!(params.cortical_e0 >= 0 && params.cortical_e0 <= 1))
    return bad_input(
        fmt::format("a cortical e0 of {}: give a share of the canvas above 0 and up to 1, "
                    "or 0 to have it chosen",
                    params.cortical_e0));
  const auto& [fine, middle, coarse] = params.thresholds;
  if (!(fine <= 1 && fine >= middle && middle >= coarse && coarse >= 0))
    return bad_input(
        fmt::format("thresholds of {}, {}, {}: give three between 1 and 0 that do not rise", fine,
                    middle, coarse));
  if (!(params.temperature > 0 && std::isfinite(params.temperature)))
    return bad_input(fmt::format("a temperature of {}: give a number above 0", params.temperature));
  if (!(params.neighbour_bonus >= 0 && std::isfinite(params.neighbour_bonus)))
    return bad_input(
        fmt::format("a neighbour bonus of {}: give 0 or more", params.neighbour_bonus));
  if (!(params.crowding >= 0 && std::isfinite(params.crowding)))
    return bad_input(fmt::format("a crowding of {}: give 0 or more", params.crowding));
  return Done{};
}

Status check_request(const PlanMaker& maker, const Scene& scene) {
  if (scene.budget_tokens < 0 || (scene.budget_tokens == 0 && !maker.without_budget))
    return bad_input(fmt::format("a {} plan with a budget of {} tokens: give 1 or more{}",
                                 maker.name(), scene.budget_tokens,
                                 maker.without_budget ? ", or 0 for no budget" : ""));
  const int width_px = scene.canvas.width_px;
  const int height_px = scene.canvas.height_px;
  for (const Point& point : scene.fixations) {
    const bool inside = point.x_px >= 0 && point.x_px < width_px && point.y_px >= 0 &&
                        point.y_px < height_px;  // false for NaN
    if (!inside)
      return bad_input(
          fmt::format("a fixation at ({}, {}) lies outside the {}x{} canvas: give x from 0 to "
                      "below {} and y from 0 to below {}",
                      point.x_px, point.y_px, width_px, height_px, width_px, height_px));
  }
  return check_params(scene.params);
}

}  // namespace

std::span<const PlanMaker> plan_makers() { return kPlanMakers; }

Result<MakerKind> find_maker(std::string_view name) {
  const auto* const found = std::find(std::begin(kMakerNames), std::end(kMakerNames), name);
  if (found == std::end(kMakerNames))
    return bad_input(fmt::format("there is no plan \"{}\": choose one of {}", name,
                                 fmt::join(kMakerNames, ", ")));
  return static_cast<MakerKind>(found - std::begin(kMakerNames));
}

Status check_plan(MakerKind maker, const Scene& scene) {
  return check_request(maker_of(maker), scene);
}

Result<Plan> make_plan(MakerKind kind, const Scene& scene) {
  const PlanMaker& maker = maker_of(kind);
  if (const Status status = check_request(maker, scene); !status) return status.error();
  check_scene(maker, scene);

  Plan plan;
  plan.maker = maker.name();
  plan.budget_tokens = scene.budget_tokens;
  plan.cells = maker.make(scene);
  std::sort(plan.cells.begin(), plan.cells.end());
  // Memory is laid out by the budget before anything runs, so this must hold whatever a maker does.
  FOVEA_CHECK(scene.budget_tokens == 0 || plan.tokens() <= scene.budget_tokens);
  FOVEA_CHECK(std::adjacent_find(plan.cells.begin(), plan.cells.end()) == plan.cells.end());
  return plan;
}

Result<Plan> make_glance(const Scene& scene) {
  FOVEA_CHECK(scene.canvas.width_px > 0 && scene.canvas.height_px > 0);
  const PlanMaker& maker = maker_of(MakerKind::kGlanceLook);
  if (const Status status = check_request(maker, scene); !status) return status.error();
  const CellTree tree(scene.canvas);
  Plan plan;
  plan.maker = maker.name();
  plan.budget_tokens = scene.budget_tokens;
  plan.cells = tree.cells_of(tree.glance_level(scene.budget_tokens));
  return plan;
}

}  // namespace fovea
