// SPDX-License-Identifier: Apache-2.0
// picture: what was seen, drawn for a person.
#pragma once

#include <string>

#include "base/threads.h"
#include "fovea/words.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {

struct Scenery {
  const Pyramid* pyramid = nullptr;
  const Relevance* relevance = nullptr;
  const Plan* plan = nullptr;
  std::vector<Point> fixations;  // canvas pixels
  Size image;                    // before it was fitted to the canvas
  std::string title;             // file name, and the question where one was asked
  std::string caption;           // tokens, share of full tokens, bytes, time
};

// The photo with the plan's cells drawn by level, the foveated reconstruction, and the heat maps,
// in one picture at most about 2000 px wide.
Image draw_picture(Threads& threads, const Scenery& scenery);

// What the tower would see: every canvas pixel from the finest cell of the plan that covers it.
Image draw_reconstruction(Threads& threads, const Pyramid& pyramid, const Plan& plan, Size size);

}  // namespace fovea
