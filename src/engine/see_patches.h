// SPDX-License-Identifier: Apache-2.0
// Looking without a model for those who bring their own: the plan, and what a tower is given.
#pragma once

#include <vector>

#include "fovea/fovea.h"
#include "patches/patches.h"

namespace fovea {

struct SeenPatches {
  Size image;
  Size canvas;
  Plan plan;
  std::vector<Point> fixations;  // canvas pixels: the given ones, or those the maker took
  Patches patches;               // float32; none where they were not asked for
};

// On the CPU. `given` takes the place of the options' maker; null: none.
Result<SeenPatches> see_patches(Image image, const SeeOptions& options, const GivenPlan* given,
                                bool sample);

}  // namespace fovea
