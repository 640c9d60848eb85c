// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

// draw_reconstruction() in plain loops, pixel by pixel and in double precision: its specification.
Image reconstruction_reference(const Pyramid& pyramid, const Plan& plan, Size size);

}  // namespace fovea
