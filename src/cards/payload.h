// SPDX-License-Identifier: Apache-2.0
// The fine print on a card: a code, ticks, a ring with a gap, or an arrow.
#pragma once

#include "cards/mask.h"

namespace fovea {

// The box of the card's ink, in pixels of the scene; needs everything else of the card.
CardBox payload_box_of(const Card& card);

void paint_payload(const CardCanvas& canvas, const Card& card);

// Black over all the places where a card of this height may have ink, so that neither kind nor
// answer shows: the label of fine print; else a part of the card, clipped to its shape.
void paint_blank_payload(const CardCanvas& canvas, const Card& card, const CardMask& shape);

}  // namespace fovea
