// SPDX-License-Identifier: Apache-2.0
// Which card says what.
#include <algorithm>
#include <array>
#include <bitset>
#include <numeric>

#include "cards/layout.h"

namespace fovea {
namespace {

constexpr int kLetters = static_cast<int>(kCodeAlphabet.size());

// How many cards of each kind: about 60 % codes, 12 % ticks, 14 % rings, 14 % arrows; at least one
// of each and five codes.
struct KindCounts {
  int ticks = 0;
  int gaps = 0;
  int arrows = 0;
};

KindCounts draw_kinds(CardRandom& random, int cards) {
  KindCounts counts;
  for (int i = 0; i < cards; ++i) {
    const int percent = random.below(100);
    if (percent < 60) continue;
    ++(percent < 72 ? counts.ticks : percent < 86 ? counts.gaps : counts.arrows);
  }
  counts.ticks = std::max(counts.ticks, 1);
  counts.gaps = std::max(counts.gaps, 1);
  counts.arrows = std::clamp(counts.arrows, 1, cards / 4);
  while (counts.ticks + counts.gaps + counts.arrows > cards - 5) {
    int& most = counts.ticks >= counts.gaps && counts.ticks >= counts.arrows ? counts.ticks
                : counts.gaps >= counts.arrows                               ? counts.gaps
                                                                             : counts.arrows;
    --most;
  }
  return counts;
}

// Codes that no card has yet.
class FreshCodes {
 public:
  explicit FreshCodes(CardRandom& random) : random_(random) {}

  int draw() {
    int code = 0;
    do {
      code = random_.below(kLetters * kLetters);
    } while (taken_[static_cast<size_t>(code)]);
    taken_.set(static_cast<size_t>(code));
    return code;
  }
  // One that differs from `code` in one character.
  int draw_near(int code) {
    int other = 0;
    do {
      const int letter = random_.below(kLetters);
      other = random_.coin() ? code / kLetters * kLetters + letter
                             : letter * kLetters + code % kLetters;
    } while (taken_[static_cast<size_t>(other)]);
    taken_.set(static_cast<size_t>(other));
    return other;
  }

 private:
  CardRandom& random_;
  std::bitset<size_t{kLetters} * kLetters> taken_;
};

void set_code(Card& card, int code) {
  card.code[0] = code / kLetters;
  card.code[1] = code % kLetters;
}

// Makes cards in this order arrows until there are so many; `taken` marks arrows and targets.
int place_arrows(CardRandom& random, const SlotGrid& grid, const std::vector<int>& slots,
                 const std::vector<int>& order, int wanted, std::vector<Card>& cards,
                 std::vector<bool>& taken) {
  std::vector<int> card_at(static_cast<size_t>(grid.across) * grid.across, -1);
  for (size_t i = 0; i < slots.size(); ++i)
    card_at[static_cast<size_t>(slots[i])] = static_cast<int>(i);
  int placed = 0;
  for (const int own : order) {
    if (placed == wanted) break;
    if (taken[static_cast<size_t>(own)]) continue;
    std::array<int, 4> directions;
    int choices = 0;
    for (int direction = 0; direction < 4; ++direction) {
      const int slot = grid.neighbour(slots[static_cast<size_t>(own)], direction);
      const int other = slot < 0 ? -1 : card_at[static_cast<size_t>(slot)];
      if (other >= 0 && cards[static_cast<size_t>(other)].kind != PayloadKind::kArrow)
        directions[static_cast<size_t>(choices++)] = direction;
    }
    if (choices == 0) continue;
    Card& card = cards[static_cast<size_t>(own)];
    card.kind = PayloadKind::kArrow;
    card.direction = directions[static_cast<size_t>(random.below(choices))];
    card.target = card_at[static_cast<size_t>(
        grid.neighbour(slots[static_cast<size_t>(own)], card.direction))];
    taken[static_cast<size_t>(own)] = true;
    taken[static_cast<size_t>(card.target)] = true;
    ++placed;
  }
  return placed;
}

}  // namespace

bool assign_kinds(CardRandom& random, const SlotGrid& grid, const std::vector<int>& slots,
                  std::vector<Card>& cards) {
  KindCounts counts = draw_kinds(random, static_cast<int>(cards.size()));
  std::vector<int> order(cards.size());
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  std::vector<bool> taken(cards.size(), false);
  if (place_arrows(random, grid, slots, order, counts.arrows, cards, taken) == 0) return false;
  for (const int own : order) {
    if (taken[static_cast<size_t>(own)]) continue;
    Card& card = cards[static_cast<size_t>(own)];
    if (counts.ticks > 0) {
      --counts.ticks;
      card.kind = PayloadKind::kTicks;
      card.number = random.between(1, 6);
    } else if (counts.gaps > 0) {
      --counts.gaps;
      card.kind = PayloadKind::kGap;
      card.direction = random.below(4);
    }
  }
  return counts.ticks == 0 && counts.gaps == 0;
}

void assign_codes(CardRandom& random, std::vector<Card>& cards) {
  std::vector<Card*> coded;
  for (Card& card : cards)
    if (card.kind == PayloadKind::kCode) coded.push_back(&card);
  random.shuffle(coded);
  int equal = random.between(1, 2);
  int near = random.between(1, 2);
  while (2 * (equal + near) > static_cast<int>(coded.size())) --(equal > near ? equal : near);
  FreshCodes codes(random);
  size_t next = 0;
  for (int i = 0; i < equal + near; ++i) {
    const int code = codes.draw();
    set_code(*coded[next++], code);
    set_code(*coded[next++], i < equal ? code : codes.draw_near(code));
  }
  while (next < coded.size()) set_code(*coded[next++], codes.draw());
}

}  // namespace fovea
