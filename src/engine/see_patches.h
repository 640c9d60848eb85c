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

// A look for models that were not trained for mixed levels: rectangles of level-0 cells.
struct SeenCrops {
  Size image;
  Size canvas;
  Plan plan;  // the glance, then the cells of each crop, row-major
  int glance_tokens = 0;
  std::vector<Area> crops;  // canvas pixels
};

// On the CPU. The options' maker does not count: it is glance+look.
Result<SeenCrops> see_crops(Image image, const SeeOptions& options);

}  // namespace fovea
