// SPDX-License-Identifier: Apache-2.0
// What lies behind the cards.
#pragma once

#include <cstdint>

#include "cards/mask.h"
#include "cards/random.h"

namespace fovea {

// Noise of three scales (8, 32 and 128 steps across) and of single pixels, 0.2..0.76 of the range.
void paint_noise(const CardCanvas& canvas, CardRandom random);

// A crop of the photograph at a place and scale of its own, somewhat faded, so that the cards stand
// out.
void paint_photo(const CardCanvas& canvas, const Image& photo, CardRandom random);

}  // namespace fovea
