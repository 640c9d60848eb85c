// SPDX-License-Identifier: Apache-2.0
#include "language/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace fovea {
namespace {

// What is shown of a text given in pieces, and whether it was ended.
struct Shown {
  std::string text;
  bool stopped = false;

  friend bool operator==(const Shown&, const Shown&) = default;
};

void PrintTo(const Shown& shown, std::ostream* out) {
  *out << '"' << shown.text << '"' << (shown.stopped ? " stopped" : "");
}

Shown show(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings filter = *StopStrings::make(stops);
  Shown shown;
  for (const std::string& piece : pieces) shown.text += filter.add(piece);
  shown.text += filter.finish();
  shown.stopped = filter.stopped();
  return shown;
}

// The definition: the first end of a stop string, the longest that ends there.
Shown expected(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops)
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopStrings, CutTheTextWhereverItIsSplit) {
  const std::string text = "One, two \u00e9nd three.\n\nUser: more\nUser: and END";
  const std::vector<std::vector<std::string>> lists = {
      {"\nUser:"}, {"END"}, {"\n\n", "\nUser"}, {"nd", "\u00e9nd"}, {"zzz"},
      {},          {"O"},   {"more"},           {"e", "ee", "hree"}};
  for (const auto& stops : lists) {
    const Shown whole = expected(stops, text);
    EXPECT_EQ(show(stops, {text}), whole);
    for (size_t a = 0; a <= text.size(); ++a) {
      EXPECT_EQ(show(stops, {text.substr(0, a), text.substr(a)}), whole) << "split at " << a;
      for (size_t b = a; b <= text.size(); ++b)
        ASSERT_EQ(show(stops, {text.substr(0, a), text.substr(a, b - a), text.substr(b)}), whole)
            << "split at " << a << " and " << b;
    }
    std::vector<std::string> bytes;
    for (const char byte : text) bytes.emplace_back(1, byte);
    EXPECT_EQ(show(stops, bytes), whole);
  }
}

// Strings of two letters overlap themselves and each other in every way.
TEST(StopStrings, RandomTextsOfTwoLettersInRandomPieces) {
  std::mt19937 random(3);
  const auto word = [&](size_t longest) {
    std::string letters(1 + random() % longest, 'a');
    for (char& letter : letters) letter = random() % 2 == 0 ? 'a' : 'b';
    return letters;
  };
  int stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (uint32_t i = 0; i <= random() % 3; ++i) stops.push_back(word(8));
    std::vector<std::string> pieces;
    std::string text;
    for (int i = 0; i < 8; ++i) text += pieces.emplace_back(word(5));
    const Shown whole = expected(stops, text);
    stopped += whole.stopped ? 1 : 0;
    ASSERT_EQ(show(stops, pieces), whole) << text;
  }
  EXPECT_GT(stopped, 500);
  EXPECT_LT(stopped, 3000);
}

TEST(StopStrings, NothingIsHeldBackLongerThanNeeded) {
  StopStrings filter = *StopStrings::make({"<end>", "<|x|>"});
  EXPECT_EQ(filter.add("hello <"), "hello ");
  EXPECT_EQ(filter.add("e"), "");
  EXPECT_EQ(filter.add("m> <|"), "<em> ");
  EXPECT_EQ(filter.add("<"), "<|");
  EXPECT_EQ(filter.add(""), "");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.finish(), "<");
}

TEST(StopStrings, AfterTheStopNothingComes) {
  StopStrings filter = *StopStrings::make({"STOP"});
  EXPECT_EQ(filter.add("go STOP and go"), "go ");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.add("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopStrings, AnEmptyOneIsRefused) {
  const auto filter = StopStrings::make({"a", ""});
  ASSERT_FALSE(filter);
  EXPECT_EQ(filter.error().message, "a stop string is empty; give at least one character");
}

}  // namespace
}  // namespace fovea
