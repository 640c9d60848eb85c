// SPDX-License-Identifier: Apache-2.0
// Pixels of pyramid levels, brought to the size of the picture.
#pragma once

#include <span>
#include <vector>

#include "base/threads.h"
#include "fovea/words.h"
#include "picture/view.h"
#include "pyramid/pyramid.h"

namespace fovea {

// The weights that make a line of source samples into a line of picture pixels:
// out[i] = sum over k < taps of weight[i * taps + k] * source[first[i] + k].
// A cubic kernel (Catmull-Rom), widened when the line shrinks; where a picture pixel lies exactly
// on a source sample and the size is kept, that sample alone. `first` may lie outside the source:
// the reader decides what stands there.
struct Taps {
  int taps = 0;
  std::vector<int> first;
  std::vector<float> weight;
};

// Sample j of the source is centred at j + 0.5; picture pixel i at origin + (i + 0.5) * step.
Taps make_taps(double origin, double step, int count);

// The level of the pyramid a view is drawn from: the coarsest that still has a pixel or more for
// each picture pixel.
int level_for(const View& view, int levels);

// Draws the canvas as it is.
void draw_photo(Threads& threads, const Pyramid& pyramid, const View& view, int level,
                Image& image);

// Draws the cells of a plan, each from the pixels of its own level (or of the view's, where that is
// coarser). Only places where the cell is the finest are written. Beyond a cell's edge the kernel
// sees what the plan knows at that level, else the edge pixel repeated: nothing the tower does not
// get reaches the picture.
void draw_cells(Threads& threads, const Pyramid& pyramid, const View& view,
                std::span<const Cell> cells, const Finest& finest, Image& image);

}  // namespace fovea
