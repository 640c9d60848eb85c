// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace fovea {
namespace {

TEST(WithCommas, GroupsByThree) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(178956970), "178,956,970");
  EXPECT_EQ(with_commas(-12345), "-12,345");
}

TEST(HumanBytes, PicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(2359296), "2.4 MB");
  EXPECT_EQ(human_bytes(999'600), "1.0 MB");
}

TEST(InQuotes, KeepsPlainTextAndShowsWhatIsNot) {
  EXPECT_EQ(in_quotes("lm_head.weight"), "\"lm_head.weight\"");
  EXPECT_EQ(in_quotes("a\nb\x7f"), "\"a\\x0ab\\x7f\"");
  EXPECT_EQ(in_quotes("\u00e9\u4e2d\U0001F600"), "\"\u00e9\u4e2d\U0001F600\"");
  EXPECT_EQ(in_quotes(std::string_view("\0\xff\xc3", 3)), "\"\\x00\\xff\\xc3\"");
}

TEST(InQuotes, ShortensLongTextInTheMiddle) {
  const std::string text = in_quotes("begin" + std::string(1'000'000, '\n') + "end");
  EXPECT_LT(text.size(), 400u);
  EXPECT_EQ(text.find("\"begin"), 0u);
  EXPECT_NE(text.find("..."), std::string::npos);
  EXPECT_NE(text.find("end\""), std::string::npos);
  EXPECT_EQ(in_quotes(std::string(100, 'x')).size(), 102u) << "100 characters are not long";
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "\u4e2d";
  EXPECT_EQ(utf8_valid_bytes(in_quotes(wide)), in_quotes(wide).size()) << "no character is cut";
}

}  // namespace
}  // namespace fovea
