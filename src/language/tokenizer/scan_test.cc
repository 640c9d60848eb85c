// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/scan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "language/tokenizer/pattern.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

// The matches of the pattern as PCRE2 finds them: the specification.
std::vector<std::string> by_expression(Pattern::Search& search, const std::string& text) {
  std::vector<std::string> words;
  PatternWork work(text.size(), nullptr);
  search.start(text, work);
  for (auto match = search.next(); match && match->found; match = search.next())
    words.push_back(text.substr(match->begin, match->end - match->begin));
  return words;
}

std::vector<std::string> by_scanner(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = scan_qwen(text, begin);
    if (end <= begin || end > text.size()) return {"scan_qwen went wrong"};
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

bool matches(Pattern::Search& search, const std::string& text) {
  PatternWork work(text.size(), nullptr);
  search.start(text, work);
  const auto match = search.next();
  return match && match->found;
}

// One example of each class, and characters that the pattern names.
const std::vector<std::string> kAlphabet = {
    "a", "S",      "s",  "t", "r",      "e",      "v",      "E",      "m",      "l",  "L", "d",
    "'", "'",      "'",  " ", " ",      " ",      "\t",     "\n",     "\n",     "\r", "1", "9",
    ".", "-",      "\v", "é", "ſ",      "字",     "\u00A0", "\u2028", "\u3000", "½",  "Ⅷ", "\u0301",
    "’", "\u200B", "😀",  "𝟘", "\u0085", "\u1680", "İ",      "ŉ",      "ﬆ"};

TEST(Scan, EqualsTheExpressionOnRandomTexts) {
  const auto pattern = Pattern::compile(std::string(kQwenPattern));
  ASSERT_TRUE(pattern) << pattern.error().message;
  Pattern::Search search(*pattern);
  std::mt19937 random(1);
  for (int i = 0; i < 60000; ++i) {
    std::string text;
    for (unsigned n = random() % 12; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    ASSERT_EQ(by_scanner(text), by_expression(search, text)) << "'" << text << "'";
  }
}

TEST(Scan, EqualsTheExpressionForEveryCharacterBothKnow) {
  const auto pattern = Pattern::compile(std::string(kQwenPattern));
  const auto letter = Pattern::compile("\\p{L}");
  const auto number = Pattern::compile("\\p{N}");
  const auto space = Pattern::compile("\\s");
  Pattern::Search search(*pattern);
  Pattern::Search letters(*letter);
  Pattern::Search numbers(*number);
  Pattern::Search spaces(*space);
  int unknown = 0;
  for (uint32_t c = 1; c < kCodePoints; c += c < 0x3000 ? 1 : 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    if (c == 0x180E) continue;  // a space for PCRE2 still, though no longer for Unicode
    std::string one;
    append_utf8(one, c);
    const uint8_t classes = char_classes()[c];
    EXPECT_EQ(matches(spaces, one), (classes & kSpace) != 0) << std::hex << c;
    // Characters younger than PCRE2's tables are letters and numbers for the scanner alone.
    if (matches(letters, one) != ((classes & kLetter) != 0) ||
        matches(numbers, one) != ((classes & kNumber) != 0)) {
      ++unknown;
      continue;
    }
    const std::string text = one + "b" + one + one + " " + one + "'" + one + "\n" + one;
    ASSERT_EQ(by_scanner(text), by_expression(search, text)) << std::hex << c;
  }
  EXPECT_LT(unknown, 5000);
}

TEST(Scan, CutsLongRunsInOnePiece) {
  for (const char* unit : {"a", " ", "\n", "!", "字"}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += unit;
    EXPECT_EQ(scan_qwen(text, 0), text.size()) << unit;
  }
}

}  // namespace
}  // namespace fovea
