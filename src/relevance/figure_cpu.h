// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fovea/words.h"

namespace fovea {

// A pixel's values side by side, so that one vector instruction serves them all: the channels in
// the first half, 255 minus each in the second.
inline constexpr int kFigureLanes = 16;

// For every lane: reach(p) = max over paths from p to the border of the least value on the path.
// value, reach: [height][width][kFigureLanes], aligned to 16 bytes
void reach_border(Size size, const uint8_t* value, uint8_t* reach);

}  // namespace fovea
