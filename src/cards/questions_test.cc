// SPDX-License-Identifier: Apache-2.0
// That every answer is true is worked out again, from the arrays, by python/tests/test_cards.py;
// here are the mix, the wordings and the evidence.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cards/cards.h"
#include "cards/layout.h"
#include "cards/wordings.h"

namespace fovea {
namespace {

constexpr int kScenes = 400;
constexpr int kQuestions = 32;

struct Asked {
  CardScene scene;
  std::vector<CardQuestion> questions;
};

Asked ask(int seed, const CardOptions& options = {}) {
  Asked asked;
  asked.scene.cards =
      lay_out(CardRandom(static_cast<uint64_t>(seed), CardStream::kLayout), options).cards;
  asked.questions =
      make_questions(asked.scene, static_cast<uint64_t>(seed), kAllFamilies, kQuestions);
  return asked;
}

// A share of n yes-or-no draws is within 4 standard deviations of a half.
void expect_half(int part, int all, const char* what) {
  ASSERT_GT(all, 200) << what;
  EXPECT_LT((2.0 * part - all) * (2.0 * part - all), 16.0 * all)
      << what << ": " << part << "/" << all;
}

TEST(CardQuestions, ASeedAsksTheSameWithEveryCompiler) {
  const Asked asked = ask(7);
  std::string first;
  for (size_t i = 0; i < 8; ++i)
    first += asked.questions[i].text + " " + asked.questions[i].answer + "\n";
  EXPECT_EQ(first,
            "Which code does the yellow cross carry? P8\n"
            "Find the card with the code 9Y. yellow square\n"
            "How many of the cards are crosses? 6\n"
            "Does the picture show a red diamond? yes\n"
            "Do the purple diamond and the green circle carry the same code? no\n"
            "Which way does the ring on the yellow star open? right\n"
            "Follow the arrow on the white cross and read the code there. HY\n"
            "How many ticks are on the red diamond? 2\n");
}

TEST(CardQuestions, EveryFamilyHasSeveralWordingsAndAllAreUsed) {
  std::map<Family, std::set<std::string>> openings;
  for (int seed = 0; seed < kScenes; ++seed) {
    for (const CardQuestion& question : ask(seed).questions) {
      EXPECT_EQ(question.text.find("{}"), std::string::npos) << question.text;
      EXPECT_TRUE(question.text.ends_with('?') || question.text.ends_with('.')) << question.text;
      std::string opening = question.text;  // without the cue
      for (int colour = 0; colour < kCardColours; ++colour)
        if (const size_t at = opening.find(colour_name(colour)); at != std::string::npos)
          opening.resize(std::min(opening.size(), at));
      openings[question.family].insert(opening);
    }
  }
  for (const Family family : kAllFamilies)
    EXPECT_GE(openings[family].size(), 4u) << family_name(family);
}

TEST(CardQuestions, YesAndNoAreEquallyFrequent) {
  int exist = 0, exist_yes = 0, same = 0, same_yes = 0, near = 0;
  for (int seed = 0; seed < kScenes; ++seed) {
    const Asked asked = ask(seed);
    for (const CardQuestion& question : asked.questions) {
      const bool yes = question.answer == "yes";
      if (question.family == Family::kExist) {
        ++exist;
        exist_yes += yes ? 1 : 0;
      }
      if (question.family != Family::kSame) continue;
      ++same;
      same_yes += yes ? 1 : 0;
      const Card& a = asked.scene.cards[static_cast<size_t>(question.evidence[0])];
      const Card& b = asked.scene.cards[static_cast<size_t>(question.evidence[1])];
      near += (a.code[0] == b.code[0]) != (a.code[1] == b.code[1]) ? 1 : 0;
    }
  }
  expect_half(exist_yes, exist, "exist");
  expect_half(same_yes, same, "same");
  expect_half(near, same - same_yes, "near misses");
}

// In small scenes, where shapes and colours are missing, half of the cues that are not there are
// made of a shape and a colour that are.
TEST(CardQuestions, HalfOfTheMissingCuesAreMadeOfPresentParts) {
  int missing = 0, apart = 0;
  for (int seed = 0; seed < kScenes; ++seed) {
    const Asked asked = ask(seed, {.size = {512, 512}, .cards_min = 8, .cards_max = 8});
    for (const CardQuestion& question : asked.questions) {
      if (question.family != Family::kExist || question.answer == "yes") continue;
      ++missing;
      bool shape = false, colour = false;
      for (const Card& card : asked.scene.cards) {
        shape = shape || question.text.find(shape_name(card.shape)) != std::string::npos;
        colour = colour || question.text.find(" " + std::string(colour_name(card.colour)) + " ") !=
                               std::string::npos;
      }
      apart += shape && colour ? 1 : 0;
    }
  }
  expect_half(apart, missing, "made of present parts");
}

TEST(CardQuestions, NothingToCountIsRareButOccurs) {
  int all = 0, none = 0;
  for (int seed = 0; seed < kScenes; ++seed) {
    for (const CardQuestion& question :
         ask(seed, {.size = {512, 512}, .cards_min = 8, .cards_max = 8}).questions) {
      if (question.family != Family::kCount) continue;
      ++all;
      none += question.answer == "0" ? 1 : 0;
    }
  }
  EXPECT_GT(none, 0);
  EXPECT_LT(none, all / 10);
}

TEST(CardQuestions, ThePayloadSizeIsTheSmallestOfTheEvidence) {
  for (int seed = 0; seed < 50; ++seed) {
    const Asked asked = ask(seed);
    for (const CardQuestion& question : asked.questions) {
      int smallest = 0;
      for (const int card : question.evidence) {
        const int height_px = asked.scene.cards[static_cast<size_t>(card)].payload_px;
        smallest = smallest == 0 ? height_px : std::min(smallest, height_px);
      }
      EXPECT_EQ(question.payload_px, smallest);
      EXPECT_EQ(question.evidence.empty(),
                question.family == Family::kCount || question.family == Family::kExist);
    }
  }
}

// With all cues taken there is nothing that does not exist.
TEST(CardQuestions, FortyEightCardsCanBeAskedAbout) {
  const Asked asked = ask(1, {.cards_min = 48, .cards_max = 48});
  EXPECT_EQ(asked.questions.size(), static_cast<size_t>(kQuestions));
  for (const CardQuestion& question : asked.questions)
    EXPECT_TRUE(question.family != Family::kExist || question.answer == "yes");
}

TEST(Wordings, WordsAreFilledIn) {
  EXPECT_EQ(fill_wording("Do the {} and the {} agree?", {"red star", "blue cross"}),
            "Do the red star and the blue cross agree?");
  EXPECT_EQ(with_article("orange star"), "an orange star");
  EXPECT_EQ(with_article("red star"), "a red star");
  EXPECT_EQ(plural("cross"), "crosses");
  EXPECT_EQ(plural("star"), "stars");
}

}  // namespace
}  // namespace fovea
