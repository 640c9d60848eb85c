// SPDX-License-Identifier: Apache-2.0
// Coupling: how much each cell has to do with the question. Whoever knows the question gives a map
// (a person, an attention layer, a text encoder); this room brings it to the cell grid.
#pragma once

#include <span>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

// A given map at the cell grid of `level`: every cell takes the mean of what covers it, weighted by
// the area shared on the canvas. A grid that is one of the canvas' levels lies as that level's
// cells do, hanging over the edge; any other grid (an encoder's 24x24, say) is stretched over the
// canvas.
Result<Map> couple_map(const Map& given, Size canvas, int level);
Map couple_map_reference(const Map& given, Size canvas, int level);

// Nearness to the closest of some points of the canvas, at the level-0 grid: a Gaussian that is 1
// at a point and 1/2 a tenth of the longer side away. For a gaze that is given instead of a
// question.
Map couple_points(std::span<const Point> points, Size canvas);

}  // namespace fovea
