// SPDX-License-Identifier: Apache-2.0
#include "cards/layout.h"

#include <algorithm>
#include <numeric>

#include "cards/payload.h"
#include "cards/shapes.h"

namespace fovea {
namespace {

constexpr int kMarginPx = 8;

// A square somewhere in a slot, clear of its edges.
CardBox jittered(CardRandom& random, const CardBox& slot, int side_px) {
  const int x = random.between(slot.x0 + kMarginPx, slot.x1 - kMarginPx - side_px);
  const int y = random.between(slot.y0 + kMarginPx, slot.y1 - kMarginPx - side_px);
  return {x, y, x + side_px, y + side_px};
}

// Moves an arrow's card sideways so that its line meets the card it points at.
void aim(CardRandom& random, const CardBox& slot, const CardBox& target, bool lying, CardBox& own) {
  const int side_px = own.width_px();
  const int off = random.between(-side_px / 4, side_px / 4);
  if (lying) {
    own.y0 = std::clamp(target.y0 + off, slot.y0 + kMarginPx, slot.y1 - kMarginPx - side_px);
    own.y1 = own.y0 + side_px;
  } else {
    own.x0 = std::clamp(target.x0 + off, slot.x0 + kMarginPx, slot.x1 - kMarginPx - side_px);
    own.x1 = own.x0 + side_px;
  }
}

// The slots of all cards, then the free ones.
std::vector<int> shuffled_slots(CardRandom& random, const SlotGrid& grid) {
  std::vector<int> slots(static_cast<size_t>(grid.across) * grid.across);
  std::iota(slots.begin(), slots.end(), 0);
  random.shuffle(slots);
  return slots;
}

void assign_cues(CardRandom& random, std::vector<Card>& cards) {
  std::vector<int> cues(kMaxCards);
  std::iota(cues.begin(), cues.end(), 0);
  random.shuffle(cues);
  for (size_t i = 0; i < cards.size(); ++i) {
    cards[i].shape = cues[i] % kCardShapes;
    cards[i].colour = cues[i] / kCardShapes;
  }
}

void place(CardRandom& random, const SlotGrid& grid, const std::vector<int>& slots, int side_px,
           std::vector<Card>& cards) {
  for (size_t i = 0; i < cards.size(); ++i)
    cards[i].card_box = jittered(random, grid.box(slots[i]), side_px);
  for (size_t i = 0; i < cards.size(); ++i) {
    Card& card = cards[i];
    if (card.target < 0) continue;
    aim(random, grid.box(slots[i]), cards[static_cast<size_t>(card.target)].card_box,
        card.direction % 2 == 1, card.card_box);
  }
}

std::vector<Distractor> lay_distractors(CardRandom& random, const SlotGrid& grid,
                                        const std::vector<int>& free_slots, int side_px) {
  const int free_count = static_cast<int>(free_slots.size());
  const int noisy = random.between(1, std::min(4, free_count - 1));
  const int vivid = random.between(1, std::min(4, free_count - noisy));
  std::vector<Distractor> distractors;
  for (int i = 0; i < noisy + vivid; ++i) {
    const CardBox slot = grid.box(free_slots[static_cast<size_t>(i)]);
    const int room_px = std::min(slot.width_px(), slot.height_px()) - 2 * kMarginPx;
    Distractor distractor;
    distractor.noise = i < noisy;
    distractor.shape = random.below(kBlankShapes);
    distractor.colour = random.below(kBlankColours);
    const int wanted_px = distractor.noise ? random.between(48, 112)
                                           : random.between(side_px * 3 / 4, side_px * 5 / 4);
    distractor.box = jittered(random, slot, std::min(wanted_px, room_px));
    distractors.push_back(distractor);
  }
  return distractors;
}

}  // namespace

int slots_across(int cards) {
  int across = 1;
  while (across * across * 10 < cards * 14) ++across;
  return across;
}

int card_side_px(const CardOptions& options, int cards) {
  const int shorter_px = std::min(options.size.width_px, options.size.height_px);
  const int pitch_px = shorter_px / slots_across(cards);
  const int usual_px = 56 * std::max(shorter_px, 1024) / 1024;
  return std::min(std::max(usual_px, 4 * options.payload_max_px), pitch_px - 20);
}

CardBox SlotGrid::box(int slot) const {
  const int row = slot / across;
  const int column = slot % across;
  return {scene.width_px * column / across, scene.height_px * row / across,
          scene.width_px * (column + 1) / across, scene.height_px * (row + 1) / across};
}

int SlotGrid::neighbour(int slot, int direction) const {
  constexpr int kRight[] = {0, 1, 0, -1};
  constexpr int kDown[] = {-1, 0, 1, 0};
  const int row = slot / across + kDown[direction];
  const int column = slot % across + kRight[direction];
  const bool inside = row >= 0 && row < across && column >= 0 && column < across;
  return inside ? row * across + column : -1;
}

CardLayout lay_out(CardRandom random, const CardOptions& options) {
  const int count = random.between(options.cards_min, options.cards_max);
  const SlotGrid grid = {options.size, slots_across(count)};
  const int side_px = card_side_px(options, count);
  CardLayout layout;
  std::vector<int> slots;
  do {
    layout.cards.assign(static_cast<size_t>(count), {});
    slots = shuffled_slots(random, grid);
  } while (!assign_kinds(random, grid, {slots.begin(), slots.begin() + count}, layout.cards));
  assign_cues(random, layout.cards);
  assign_codes(random, layout.cards);
  place(random, grid, slots, side_px, layout.cards);
  for (Card& card : layout.cards) {
    card.payload_px = random.between(options.payload_min_px, options.payload_max_px);
    card.style_bits = static_cast<uint32_t>(random.next() >> 32);
    card.payload_box = payload_box_of(card);
  }
  layout.distractors = lay_distractors(random, grid, {slots.begin() + count, slots.end()}, side_px);
  return layout;
}

}  // namespace fovea
