// SPDX-License-Identifier: Apache-2.0
// The plan makers, each beside its reference. They take a scene that make_plan has checked and
// return cells in any order.
#pragma once

#include <vector>

#include "gaze/gaze.h"

namespace fovea {

std::vector<Cell> uniform_plan(const Scene& scene);
std::vector<Cell> uniform_plan_reference(const Scene& scene);

std::vector<Cell> cortical_plan(const Scene& scene);
std::vector<Cell> cortical_plan_reference(const Scene& scene);

std::vector<Cell> thresholds_plan(const Scene& scene);
std::vector<Cell> thresholds_plan_reference(const Scene& scene);

std::vector<Cell> proportional_plan(const Scene& scene);
std::vector<Cell> proportional_plan_reference(const Scene& scene);

std::vector<Cell> quadtree_plan(const Scene& scene);
std::vector<Cell> quadtree_plan_reference(const Scene& scene);

std::vector<Cell> top_k_plan(const Scene& scene);
std::vector<Cell> top_k_plan_reference(const Scene& scene);

std::vector<Cell> glance_look_plan(const Scene& scene);
std::vector<Cell> glance_look_plan_reference(const Scene& scene);

}  // namespace fovea
