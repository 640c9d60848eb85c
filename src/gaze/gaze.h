// SPDX-License-Identifier: Apache-2.0
// gaze: Relevance + budget -> Plan. Every way of choosing cells is a plan maker.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"
#include "gaze/cell_tree.h"
#include "gaze/maker_kind.h"
#include "relevance/relevance.h"

namespace fovea {

inline constexpr int kDefaultBudgetTokens = 96;

// What a plan maker can be told beyond the budget; each reads its own part. The makers' files say
// how the defaults were chosen.
struct GazeParams {
  // cortical: the peaks of relevance that are taken where no fixations are given (1 or more).
  int fixation_count = 3;
  // cortical: e0 of the magnification M0 / (e + e0), as a share of the canvas's longer side; 0
  // chooses it so that the levels from the fixation to the far edge span the whole pyramid.
  double cortical_e0 = 0;
  // thresholds: relevance above thresholds[l] is read at level l, the rest at level 3; falling.
  std::array<double, 3> thresholds = {0.8, 0.5, 0.2};
  // proportional: the softmax over regions; towards 0 the best region takes all it may, towards
  // infinity all get the same.
  double temperature = 0.25;
  // quadtree: start at the one cell that covers the canvas instead of at the glance, so that places
  // with nothing to see are read coarser than the glance.
  bool quadtree_from_root = false;
  // glance+look: what each of at most two chosen neighbours adds to a cell's relevance, and what
  // each chosen cell within three cells takes from it.
  double neighbour_bonus = 0.2;
  double crowding = 0.02;
};

// What a plan maker may look at.
struct Scene {
  Size canvas;
  const Map* relevance = nullptr;  // at the level-0 grid; null only where the maker needs none
  const Detail* detail = nullptr;  // null only where the maker needs none
  std::vector<Point> fixations;    // canvas pixels; empty: taken from the peaks of relevance
  int budget_tokens = kDefaultBudgetTokens;  // 0: no budget (uniform and thresholds alone take it)
  GazeParams params;
};

using MakePlan = std::vector<Cell> (*)(const Scene& scene);

struct PlanMaker {
  MakerKind kind;
  const char* description;  // one line for people
  MakePlan make;
  MakePlan reference;    // the specification of `make`: plain loops, the same cells
  bool covers;           // every canvas pixel lies in at least one cell
  bool exactly_once;     // ... and in exactly one
  bool without_budget;   // a budget of 0 is allowed
  bool needs_relevance;  // what the scene must hold
  bool needs_detail;

  std::string_view name() const { return maker_name(kind); }
};

// All plan makers, by kind.
std::span<const PlanMaker> plan_makers();

// The maker that people call so; an error lists those there are.
Result<MakerKind> find_maker(std::string_view name);

// What make_plan would refuse: a budget, a fixation, a parameter.
Status check_plan(MakerKind maker, const Scene& scene);

// Makes a plan and puts it in order. An error names what cannot be: a budget, a fixation outside
// the canvas, a parameter out of its range.
Result<Plan> make_plan(MakerKind maker, const Scene& scene);

// The glance of a glance+look plan by itself: the finest level that takes at most 2/3 of the
// budget, which the plan keeps. The same errors as make_plan; nothing of the scene but canvas,
// budget and fixations is looked at.
Result<Plan> make_glance(const Scene& scene);

// One more look on top of a glance: the best level-0 cells that are not among `seen` (inhibition of
// return), row-major; `tokens` of them, or all that are left.
std::vector<Cell> make_look(const Scene& scene, int64_t tokens, std::span<const Cell> seen = {});
std::vector<Cell> make_look_reference(const Scene& scene, int64_t tokens,
                                      std::span<const Cell> seen = {});

// A look in rectangles of level-0 cells, at most four, that touch neither each other's cells nor
// those of `seen`; `tokens` cells in all or fewer. Best first.
std::vector<CellBlock> make_crops(const Scene& scene, int64_t tokens,
                                  std::span<const Cell> seen = {});

// Where a look went: the middles of its clusters (cells that touch), weighted by relevance, those
// with the most relevance first, at most `most`; canvas pixels.
std::vector<Point> find_clusters(std::span<const Cell> look, const Map& relevance, Size canvas,
                                 int most);

// The peaks of a level-0 relevance map, best first, with inhibition of return, in canvas pixels.
// Fewer than `count` where no relevance is left; a flat map has one fixation, the centre of the
// canvas.
std::vector<Point> find_fixations(const Map& relevance, Size canvas, int count);

}  // namespace fovea
