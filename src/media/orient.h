// SPDX-License-Identifier: Apache-2.0
// Rotates a picture upright.
#pragma once

#include "fovea/words.h"

namespace fovea {

// Applies an EXIF orientation, 1..8 (1: already upright). Mirrors work in place; those that swap
// the sides hold both pictures for a moment.
Image orient(Image image, int orientation);

}  // namespace fovea
