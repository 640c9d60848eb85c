// SPDX-License-Identifier: Apache-2.0
// Where everything of a scene lies, and what the cards say.
#pragma once

#include <vector>

#include "cards/cards.h"
#include "cards/random.h"

namespace fovea {

// Slots across and down a scene: at least 1.4 for each card, so that some stay free.
int slots_across(int cards);

// The side of the cards of a scene; less than 3 payload heights: they do not fit.
int card_side_px(const CardOptions& options, int cards);

// Places of a scene that take one card each.
struct SlotGrid {
  Size scene;
  int across = 0;

  CardBox box(int slot) const;
  int neighbour(int slot, int direction) const;  // -1 at the edge
};

// Something that is no card: noise, or a vivid shape that holds nothing.
struct Distractor {
  bool noise = false;
  int shape = 0;
  int colour = 0;
  CardBox box;
};

struct CardLayout {
  std::vector<Card> cards;
  std::vector<Distractor> distractors;
};

CardLayout lay_out(CardRandom random, const CardOptions& options);

// Gives the cards of these slots their kinds and the arrows their targets; false where no card has
// a neighbour that an arrow could point at.
bool assign_kinds(CardRandom& random, const SlotGrid& grid, const std::vector<int>& slots,
                  std::vector<Card>& cards);

// Gives the code cards their codes: one or two pairs are equal, one or two pairs differ in one
// character, all others are unique.
void assign_codes(CardRandom& random, std::vector<Card>& cards);

}  // namespace fovea
