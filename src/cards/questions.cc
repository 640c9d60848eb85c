// SPDX-License-Identifier: Apache-2.0
// What is asked about a scene, and what is true.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "cards/cards.h"
#include "cards/random.h"
#include "cards/wordings.h"

namespace fovea {
namespace {

using CardPair = std::pair<int, int>;

bool same_code(const Card& a, const Card& b) {
  return a.code[0] == b.code[0] && a.code[1] == b.code[1];
}

bool near_code(const Card& a, const Card& b) {
  return (a.code[0] == b.code[0]) != (a.code[1] == b.code[1]);
}

// Everything about a scene that can be asked for, shuffled: questions of one family go through
// their cards in turn before any comes back.
struct Askable {
  std::array<std::vector<int>, 4> of_kind;  // cards of each PayloadKind
  std::vector<int> found;                   // code cards whose code no other has
  std::vector<CardPair> equal;
  std::vector<CardPair> near;  // codes that differ in one character
  std::vector<CardPair> far;
};

Askable gather(const std::vector<Card>& cards, CardRandom& random) {
  Askable askable;
  for (size_t i = 0; i < cards.size(); ++i)
    askable.of_kind[static_cast<size_t>(cards[i].kind)].push_back(static_cast<int>(i));
  const std::vector<int>& coded = askable.of_kind[static_cast<size_t>(PayloadKind::kCode)];
  for (const int i : coded) {
    bool alone = true;
    for (const int j : coded) {
      const Card& a = cards[static_cast<size_t>(i)];
      const Card& b = cards[static_cast<size_t>(j)];
      if (i != j && same_code(a, b)) alone = false;
      if (i >= j) continue;
      (same_code(a, b)   ? askable.equal
       : near_code(a, b) ? askable.near
                         : askable.far)
          .emplace_back(i, j);
    }
    if (alone) askable.found.push_back(i);
  }
  for (std::vector<int>& of_kind : askable.of_kind) random.shuffle(of_kind);
  random.shuffle(askable.found);
  return askable;
}

class Asker {
 public:
  Asker(const std::vector<Card>& cards, uint64_t seed)
      : cards_(cards), random_(seed, CardStream::kQuestions), askable_(gather(cards, random_)) {}

  CardQuestion ask(Family family) {
    CardQuestion question = dispatch(family, asked_[static_cast<size_t>(family)]++);
    question.family = family;
    for (const int card : question.evidence) {
      const int height_px = cards_[static_cast<size_t>(card)].payload_px;
      if (question.payload_px == 0 || height_px < question.payload_px)
        question.payload_px = height_px;
    }
    return question;
  }

 private:
  CardQuestion dispatch(Family family, size_t turn) {
    switch (family) {
      case Family::kRead: {
        const int i = in_turn(of_kind(PayloadKind::kCode), turn);
        return about(kReadWordings, i, card_code(card(i)), {i});
      }
      case Family::kFind: {
        const int i = in_turn(askable_.found, turn);
        return {.text = worded(kFindWordings, {card_code(card(i))}),
                .answer = card_name(card(i)),
                .evidence = sorted(of_kind(PayloadKind::kCode))};
      }
      case Family::kCount:
        return count();
      case Family::kExist:
        return exist();
      case Family::kSame:
        return same();
      case Family::kGap: {
        const int i = in_turn(of_kind(PayloadKind::kGap), turn);
        return about(kGapWordings, i, std::string(direction_name(card(i).direction)), {i});
      }
      case Family::kFollow: {
        const int i = in_turn(of_kind(PayloadKind::kArrow), turn);
        return about(kFollowWordings, i, card_code(card(card(i).target)), {i, card(i).target});
      }
      case Family::kTicks:
        break;
    }
    const int i = in_turn(of_kind(PayloadKind::kTicks), turn);
    return about(kTicksWordings, i, fmt::format("{}", card(i).number), {i});
  }

  CardQuestion count() {
    int value = 0;
    bool of_colour = false;
    int number = 0;
    do {  // nothing to count is a fair question, but a rare one
      of_colour = random_.coin();
      value = random_.below(of_colour ? kCardColours : kCardShapes);
      number =
          static_cast<int>(std::count_if(cards_.begin(), cards_.end(), [&](const Card& counted) {
            return (of_colour ? counted.colour : counted.shape) == value;
          }));
    } while (number == 0 && random_.below(8) != 0);
    return {.text = of_colour ? worded(kCountColourWordings, {std::string(colour_name(value))})
                              : worded(kCountShapeWordings, {plural(shape_name(value))}),
            .answer = fmt::format("{}", number)};
  }

  // Half of the cues that are not there are made of a shape and a colour that are, where possible.
  CardQuestion exist() {
    Card cue = random_.pick(cards_);
    bool there = true;
    if (random_.coin()) {
      std::vector<Card> apart;  // both occur, not together
      std::vector<Card> strange;
      gather_missing(apart, strange);
      const std::vector<Card>& wanted = random_.coin() ? apart : strange;
      const std::vector<Card>& missing = !wanted.empty() ? wanted : apart.empty() ? strange : apart;
      if (!missing.empty()) {  // there is none among 48 cards
        cue = random_.pick(missing);
        there = false;
      }
    }
    return {.text = worded(kExistWordings, {with_article(card_name(cue))}),
            .answer = there ? "yes" : "no"};
  }

  void gather_missing(std::vector<Card>& apart, std::vector<Card>& strange) const {
    bool has[kCardShapes][kCardColours] = {};
    bool has_shape[kCardShapes] = {};
    bool has_colour[kCardColours] = {};
    for (const Card& present : cards_) {
      has[present.shape][present.colour] = true;
      has_shape[present.shape] = true;
      has_colour[present.colour] = true;
    }
    for (int shape = 0; shape < kCardShapes; ++shape) {
      for (int colour = 0; colour < kCardColours; ++colour) {
        if (has[shape][colour]) continue;
        (has_shape[shape] && has_colour[colour] ? apart : strange)
            .push_back({.shape = shape, .colour = colour});
      }
    }
  }

  CardQuestion same() {
    const bool equal = random_.coin();
    const bool near = random_.coin() || askable_.far.empty();
    CardPair pair = random_.pick(equal ? askable_.equal : near ? askable_.near : askable_.far);
    if (random_.coin()) std::swap(pair.first, pair.second);
    return {
        .text = worded(kSameWordings, {card_name(card(pair.first)), card_name(card(pair.second))}),
        .answer = equal ? "yes" : "no",
        .evidence = {pair.first, pair.second}};
  }

  CardQuestion about(std::span<const std::string_view> wordings, int i, std::string answer,
                     std::vector<int> evidence) {
    return {.text = worded(wordings, {card_name(card(i))}),
            .answer = std::move(answer),
            .evidence = std::move(evidence)};
  }

  std::string worded(std::span<const std::string_view> wordings,
                     const std::vector<std::string>& words) {
    return fill_wording(
        wordings[static_cast<size_t>(random_.below(static_cast<int>(wordings.size())))], words);
  }

  const Card& card(int i) const { return cards_[static_cast<size_t>(i)]; }
  const std::vector<int>& of_kind(PayloadKind kind) const {
    return askable_.of_kind[static_cast<size_t>(kind)];
  }
  static int in_turn(const std::vector<int>& items, size_t turn) {
    FOVEA_CHECK(!items.empty());
    return items[turn % items.size()];
  }
  static std::vector<int> sorted(std::vector<int> items) {
    std::sort(items.begin(), items.end());
    return items;
  }

  const std::vector<Card>& cards_;
  CardRandom random_;
  Askable askable_;
  std::array<size_t, kAllFamilies.size()> asked_ = {};
};

}  // namespace

std::vector<CardQuestion> make_questions(const CardScene& scene, uint64_t seed,
                                         std::span<const Family> families, int count) {
  FOVEA_CHECK(!families.empty() && !scene.cards.empty());
  Asker asker(scene.cards, seed);
  std::vector<CardQuestion> questions;
  questions.reserve(static_cast<size_t>(count));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    questions.push_back(asker.ask(families[i % families.size()]));
  return questions;
}

}  // namespace fovea
