// SPDX-License-Identifier: Apache-2.0
// The front end in two steps: what an image is prepared to once, and what is chosen of it for each
// question.
#pragma once

#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "base/threads.h"
#include "fovea/fovea.h"
#include "pyramid/canvas.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {

struct Prepared {
  Size image;
  Pyramid pyramid;
  Detail detail;

  Size canvas() const { return pyramid.canvas(); }
};

// Fits the image to its canvas and builds the pyramid.
Result<Prepared> prepare(Threads& threads, Image image, const CanvasLimits& limits,
                         Stopwatch& watch);

struct Choice {
  Relevance relevance;
  Plan plan;
  std::vector<Point> fixations;  // canvas pixels: the given ones, or those the maker took
  bool scan_path = false;        // the fixations are where looks went, one after the other
};

// Measures relevance and makes the plan. Fixations steer every maker: where no coupling is given,
// nearness to them stands for it.
Result<Choice> choose(Threads& threads, const Prepared& prepared, const SeeOptions& options,
                      Stopwatch& watch);

// What a person may look at, out of both; the maps are moved out of `choice`. `patches` and the
// stages in `watch` go into the caption.
Sight make_sight(Threads& threads, const Prepared& prepared, Choice& choice,
                 const std::string& name, const SeeOptions& options, int64_t patch_bytes,
                 Stopwatch& watch);

}  // namespace fovea
