// SPDX-License-Identifier: Apache-2.0
// The outlines of cards, and of what looks vivid and holds nothing.
#pragma once

#include "cards/mask.h"

namespace fovea {

// Where the ink is centred, in 1024ths of the card's side: shapes are fattest there.
MaskPoint body_of(int shape);

CardMask shape_mask(int shape, int side_px);
CardInk colour_ink(int colour, uint32_t style_bits);

inline constexpr int kBlankShapes = 4;  // a bar lying, a bar standing, a ring, a crescent
inline constexpr int kBlankColours = 2;
CardMask blank_mask(int shape, int side_px);
CardInk blank_ink(int colour);

}  // namespace fovea
