// SPDX-License-Identifier: Apache-2.0
#include "picture/text.h"

#include <gtest/gtest.h>

#include <random>

namespace fovea {
namespace {

constexpr Rgb kPoison{77, 13, 201};

struct Ink {
  int left = 1 << 30;
  int right = -1;  // one past the last changed column
  int top = 1 << 30;
  int bottom = -1;
};

Ink find_ink(const Image& image) {
  Ink ink;
  for (int y = 0; y < image.size.height_px; ++y)
    for (int x = 0; x < image.size.width_px; ++x)
      if (pixel(image, x, y) != kPoison) {
        ink.left = std::min(ink.left, x);
        ink.right = std::max(ink.right, x + 1);
        ink.top = std::min(ink.top, y);
        ink.bottom = std::max(ink.bottom, y + 1);
      }
  return ink;
}

Image poisoned(Size size) {
  Image image(size);
  fill(image, bounds(image), kPoison);
  return image;
}

TEST(Utf8, TextOfEveryLengthOfCodeIsDecoded) {
  EXPECT_EQ(decode_utf8("aé€😀z"), U"aé€😀z");
  EXPECT_EQ(decode_utf8(""), U"");
}

TEST(Utf8, BrokenBytesBecomeReplacementsAndTheRestSurvives) {
  EXPECT_EQ(decode_utf8("a\x80z"), U"a\uFFFDz");                            // a stray follower
  EXPECT_EQ(decode_utf8("a\xC3"), U"a\uFFFD");                              // cut off at the end
  EXPECT_EQ(decode_utf8("\xE2\x82z"), U"\uFFFDz");                          // cut off by a letter
  EXPECT_EQ(decode_utf8("\xC0\xAFz"), U"\uFFFD\uFFFDz");                    // overlong
  EXPECT_EQ(decode_utf8("\xED\xA0\x80z"), U"\uFFFD\uFFFD\uFFFDz");          // half a surrogate pair
  EXPECT_EQ(decode_utf8("\xF4\x90\x80\x80"), U"\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
  EXPECT_EQ(decode_utf8("\xFF\xFEok"), U"\uFFFD\uFFFDok");
}

TEST(Utf8, ControlsBecomeSpacesAndInvisibleMarksVanish) {
  EXPECT_EQ(decode_utf8(std::string_view("a\n\tb\0c\x7F", 7)), U"a  b c ");
  EXPECT_EQ(decode_utf8("👩‍🚀️x"), U"👩🚀x");    // joiner, variation selector
  EXPECT_EQ(decode_utf8("\u202Etxt.gpj"), U"txt.gpj");  // no change of direction
}

TEST(Utf8, RandomBytesGiveDrawableCodePoints) {
  std::mt19937 random(11);
  Font font;
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random() % 40, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::u32string text = decode_utf8(bytes);
    EXPECT_LE(text.size(), bytes.size());
    for (const char32_t code : text) {
      ASSERT_LE(code, 0x10FFFFu);
      ASSERT_FALSE(code >= 0xD800 && code < 0xE000);
      ASSERT_GE(code, 0x20u);
    }
    EXPECT_GE(font.width_px(text, 17), 0);
  }
}

TEST(Font, DrawingStaysInsideTheMeasuredBox) {
  std::mt19937 random(3);
  Font font;
  const std::u32string letters = U"jfÅAVWgyQ|/_.\u0301Ẵ漢😀\uFFFD 0Ж…·×";
  for (int round = 0; round < 150; ++round) {
    std::u32string text;
    for (int i = static_cast<int>(random() % 12); i >= 0; --i)
      text += letters[random() % letters.size()];
    const int size = 7 + static_cast<int>(random() % 40);
    Image image = poisoned({700, 90});
    const int width = font.width_px(text, size);
    EXPECT_EQ(font.draw(image, 20, 15, text, size, ink::kText), 20 + width);
    const Ink ink = find_ink(image);
    if (ink.right < 0) continue;  // spaces only
    EXPECT_GE(ink.left, 20);
    EXPECT_LE(ink.right, 20 + width);
    EXPECT_GE(ink.top, 15);
    EXPECT_LE(ink.bottom, 15 + font.line_px(size));
  }
}

TEST(Font, TheMeasuredWidthIsTheInkOfUprightLetters) {
  Font font;
  for (const int size : {12, 19, 30}) {
    Image image = poisoned({600, 60});
    const int width = font.width_px(U"Hills and mill", size);
    font.draw(image, 10, 5, U"Hills and mill", size, ink::kText);
    const Ink ink = find_ink(image);
    // A letter keeps about a tenth of its size free on either side.
    EXPECT_NEAR(ink.left, 10, 1 + size / 8.0);
    EXPECT_NEAR(ink.right, 10 + width, 1 + size / 8.0);
  }
}

TEST(Font, LargerTextIsWiderAndHigherInProportion) {
  Font font;
  const double ratio = static_cast<double>(font.width_px(U"relevance of a cell", 60)) /
                       font.width_px(U"relevance of a cell", 20);
  EXPECT_NEAR(ratio, 3, 0.05);
  EXPECT_NEAR(static_cast<double>(font.line_px(60)) / font.line_px(20), 3, 0.1);
}

TEST(Font, ACharacterTheFontLacksIsAVisibleBox) {
  Font font;
  Image image = poisoned({60, 60});
  font.draw(image, 5, 5, U"漢", 30, ink::kText);
  const Ink ink = find_ink(image);
  EXPECT_GT(ink.right - ink.left, 8);
  EXPECT_GT(ink.bottom - ink.top, 15);
}

TEST(Font, TextPartlyOutsideTheImageIsClipped) {
  Font font;
  Image whole = poisoned({200, 60});
  font.draw(whole, 60, 20, U"clipped", 24, ink::kText);
  Image part = poisoned({50, 20});
  font.draw(part, 60 - 75, 20 - 30, U"clipped", 24, ink::kText);
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 50; ++x) ASSERT_EQ(pixel(part, x, y), pixel(whole, x + 75, y + 30));
}

TEST(Font, FitKeepsWhatFitsAndCutsWithAnEllipsis) {
  Font font;
  const std::u32string text = U"a photo of a lighthouse by the sea.jpeg";
  const int full = font.width_px(text, 20);
  EXPECT_EQ(font.fit(text, 20, full), text);
  for (int width = 0; width < full; width += 7) {
    const std::u32string cut = font.fit(text, 20, width);
    EXPECT_LE(font.width_px(cut, 20), width);
    if (cut.empty()) {
      EXPECT_LT(width, font.width_px(U"…", 20));
      continue;
    }
    EXPECT_EQ(cut.back(), U'…');
    EXPECT_EQ(text.rfind(cut.substr(0, cut.size() - 1), 0), 0u);  // a beginning of the text
  }
}

TEST(Font, WrapLosesNoWordAndNoLineIsTooWide) {
  Font font;
  const std::u32string text =
      U"What is written on the sign behind the second window from the left?";
  for (const int width : {120, 260, 500, 2000}) {
    std::u32string joined;
    for (const std::u32string& line : font.wrap(text, 18, width, 100)) {
      EXPECT_LE(font.width_px(line, 18), width);
      joined += (joined.empty() ? U"" : U" ") + line;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Font, WrapBreaksLongWordsAndEndsWithAnEllipsis) {
  Font font;
  const std::u32string word(5000, U'字');
  const auto lines = font.wrap(word, 18, 200, 3);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::u32string& line : lines) {
    EXPECT_LE(font.width_px(line, 18), 200);
    EXPECT_GT(font.width_px(line, 18), 160);
  }
  EXPECT_EQ(lines[2].back(), U'…');
  EXPECT_TRUE(font.wrap(U"", 18, 200, 3).empty());
  EXPECT_TRUE(font.wrap(U"   ", 18, 200, 3).empty());
  EXPECT_EQ(font.wrap(U"ab", 18, 1, 3).size(), 2u);  // narrower than a letter: still ends
}

}  // namespace
}  // namespace fovea
