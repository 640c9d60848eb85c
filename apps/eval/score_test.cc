// SPDX-License-Identifier: Apache-2.0
#include "eval/score.h"

#include <gtest/gtest.h>

namespace fovea::eval {
namespace {

// Published examples (Newcombe 1998, method 3), to the four places they are given with.
TEST(Wilson, EqualsPublishedIntervals) {
  const struct {
    int64_t right, n;
    double low, high;
  } known[] = {{81, 263, 0.2553, 0.3662},
               {15, 148, 0.0624, 0.1605},
               {0, 20, 0.0000, 0.1611},
               {1, 29, 0.0061, 0.1718}};
  for (const auto& [right, n, low, high] : known) {
    const Interval interval = wilson(right, n);
    EXPECT_NEAR(interval.low, low, 6e-5) << right << " of " << n;
    EXPECT_NEAR(interval.high, high, 6e-5) << right << " of " << n;
  }
}

TEST(Wilson, IsSymmetricHoldsTheShareAndStaysInBounds) {
  for (int64_t n = 1; n < 200; n += 7)
    for (int64_t right = 0; right <= n; ++right) {
      const Interval one = wilson(right, n);
      const Interval other = wilson(n - right, n);
      const double share = static_cast<double>(right) / static_cast<double>(n);
      EXPECT_LE(one.low, share);
      EXPECT_GE(one.high, share);
      EXPECT_GE(one.low, 0);
      EXPECT_LE(one.high, 1);
      EXPECT_NEAR(one.low, 1 - other.high, 1e-12);  // rounding alone
    }
  EXPECT_EQ(wilson(0, 9).low, 0);
  EXPECT_EQ(wilson(9, 9).high, 1);
  EXPECT_EQ(wilson(0, 0).high, 1);
}

TEST(Normalised, ForgetsCaseArticlesPunctuationAndSpace) {
  const std::pair<const char*, const char*> cases[] = {{" K7.\n", "k7"},
                                                       {"The red circle", "red circle"},
                                                       {"a  \"Red\", circle!", "red circle"},
                                                       {"an apple; the pear", "apple pear"},
                                                       {"A", "a"},
                                                       {"the", "the"},
                                                       {"three", "3"},
                                                       {"Twenty", "20"},
                                                       {"1,024", "1024"},
                                                       {"1,02", "1 02"},
                                                       {"3.5 m", "3.5 m"},
                                                       {"-4", "-4"},
                                                       {"left-hand", "left hand"},
                                                       {"it's", "its"},
                                                       {"\xe2\x80\x9cK7\xe2\x80\x9d", "k7"},
                                                       {"Gr\xc3\xbcn", "gr\xc3\xbcn"},
                                                       {"", ""},
                                                       {"?!", ""}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(normalised(text), expected) << text;
}

Question free_form(std::vector<std::string> answers) {
  Question question;
  question.answers = std::move(answers);
  return question;
}

TEST(IsRight, FreeAnswersMustMatchWhole) {
  EXPECT_TRUE(is_right(free_form({"K7"}), "k7."));
  EXPECT_FALSE(is_right(free_form({"K7"}), "K71"));
  EXPECT_FALSE(is_right(free_form({"K7"}), "the code is K7"));
  EXPECT_FALSE(is_right(free_form({"K7"}), ""));
  EXPECT_TRUE(is_right(free_form({"yes", "yeah"}), "Yeah!"));
  EXPECT_TRUE(is_right(free_form({"4"}), "four"));
  EXPECT_TRUE(is_right(free_form({"+"}), " + "));
  EXPECT_FALSE(is_right(free_form({"+"}), "-"));
}

TEST(ChosenOption, IsNamedByLetterOrText) {
  const std::vector<std::string> options{"red", "dark red", "A dog", "blue"};
  const std::pair<const char*, int> cases[] = {{"B", 1},
                                               {"b", 1},
                                               {"(B)", 1},
                                               {"(b) dark red", 1},
                                               {"B.", 1},
                                               {"**D**", 3},
                                               {"D: blue", 3},
                                               {"D because it is", 3},
                                               {"blue", 3},
                                               {"Dark red.", 1},
                                               {"It is dark red", 1},
                                               {"It is red", 0},
                                               {"A dog", 2},
                                               {"A blue one", 3},
                                               {"red or blue", -1},
                                               {"E", -1},
                                               {"(B", -1},
                                               {"green", -1},
                                               {"", -1}};
  for (const auto& [answer, expected] : cases)
    EXPECT_EQ(chosen_option(options, answer), expected) << answer;
}

}  // namespace
}  // namespace fovea::eval
