// SPDX-License-Identifier: Apache-2.0
// picture: what was seen, drawn for a person.
#pragma once

#include <string>
#include <vector>

#include "base/threads.h"
#include "fovea/words.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {

struct Scenery {
  const Pyramid* pyramid = nullptr;
  const Relevance* relevance = nullptr;  // null, or empty maps: those panels are left out
  const Plan* plan = nullptr;
  std::vector<Point> fixations;  // canvas pixels, in their order
  bool scan_path = false;        // the fixations follow one another: lines join them
  Size image;                    // before it was fitted to the canvas
  std::string title;             // file name; any bytes
  std::string question;          // empty where none was asked; any bytes
  std::string caption;           // tokens, share of full tokens, bytes, time, with " · " between
};

inline constexpr int kPictureMostWidthPx = 1920;
inline constexpr int kPictureMostHeightPx = 2400;

// The photo with the plan's cells drawn by level, the foveated reconstruction, and the heat maps,
// in one picture.
Image draw_picture(Threads& threads, const Scenery& scenery);

// What the tower would see: every canvas pixel from the finest cell of the plan that covers it,
// hatched where none does. At the size of the canvas, level-0 cells are the canvas's own pixels.
Image draw_reconstruction(Threads& threads, const Pyramid& pyramid, const Plan& plan, Size size);

}  // namespace fovea
