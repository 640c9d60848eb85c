// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "relevance/texture.h"

namespace fovea {

// The sum over the (2 radius + 1)^2 pixels around each, `times` times over; pixels outside are the
// nearest inside. The radius is 1 or 2; sums must fit 32 bits.
Plane box_sum(const Plane& plane, int radius, int times);

}  // namespace fovea
