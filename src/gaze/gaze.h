// SPDX-License-Identifier: Apache-2.0
// gaze: Relevance + budget -> Plan. Every way of choosing cells is a plan maker.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"
#include "relevance/relevance.h"

namespace fovea {

inline constexpr int kDefaultBudgetTokens = 96;

// What a plan maker may look at. Pointers are never null.
struct Scene {
  Size canvas;
  const Map* relevance = nullptr;  // at the level-0 grid
  const Detail* detail = nullptr;  // for quadtree and proportional
  std::vector<Point> fixations;    // canvas pixels; empty: taken from the peaks of relevance
  int budget_tokens = kDefaultBudgetTokens;  // 0: no budget (uniform and thresholds alone take it)
};

using MakePlan = std::vector<Cell> (*)(const Scene& scene);

struct PlanMaker {
  const char* name;         // as on the command line
  const char* description;  // one line for --help
  MakePlan make;
  bool covers;          // every canvas pixel lies in at least one cell
  bool exactly_once;    // ... and in exactly one
  bool without_budget;  // a budget of 0 is allowed
};

// All plan makers, in the order --help lists them.
std::span<const PlanMaker> plan_makers();

// Makes a plan and puts it in order. An error names an unknown maker or an impossible budget.
Result<Plan> make_plan(const std::string& maker, const Scene& scene);

// The peaks of a relevance map, best first, with inhibition of return; canvas pixels.
std::vector<Point> find_fixations(const Map& relevance, Size canvas, int count);

}  // namespace fovea
