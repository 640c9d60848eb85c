// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "fovea/result.h"

namespace fovea {
namespace {

TEST(Utf8, ValidBytesStopAtTheFirstFault) {
  const std::string good = "plain ascii \u00e9 \u0800 \ud7ff \ue000 \U00010000 \U0010FFFF end";
  EXPECT_EQ(utf8_valid_bytes(good), good.size());
  for (const std::string bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe4\xb8", "\xc3", "\xf0\x9f\x98"}) {
    EXPECT_EQ(utf8_valid_bytes(good + bad), good.size());
    EXPECT_EQ(utf8_valid_bytes(good + bad + " and more text"), good.size());
  }
}

TEST(Utf8, WhatATerminalWouldObeyIsWrittenOut) {
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable("\u009b2J"), "\\u{009b}2J") << "the same as one character";
  EXPECT_EQ(printable("\u202egnp.exe"), "\\u{202e}gnp.exe") << "reverses the line";
  EXPECT_EQ(printable("\u2028"), "\\u{2028}");
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\u00e9\u4e2d\U0001F600"), "\u00e9\u4e2d\U0001F600");
  EXPECT_EQ(printable(printable("\x1b\u202e")), printable("\x1b\u202e"));
}

TEST(Utf8, ALineKeepsBothEndsOfALongText) {
  EXPECT_EQ(printable_line("a\nb\tc\r", 50), "a b c ");
  EXPECT_EQ(printable_line(std::string(50, 'x'), 50), std::string(50, 'x'));
  for (const size_t size : {51u, 1000u, 10'000'000u}) {
    const std::string line = printable_line("begin" + std::string(size, 'x') + "end", 50);
    EXPECT_EQ(line.size(), 50u);
    EXPECT_TRUE(line.starts_with("begin") && line.ends_with("end")) << line;
    EXPECT_NE(line.find(" ... "), std::string::npos);
  }
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += "\u4e2d";
  const std::string line = printable_line(wide, 50);
  EXPECT_EQ(line.size(), 45u * 3 + 5) << "characters are counted, and none is cut";
  EXPECT_EQ(utf8_valid_bytes(line), line.size());
}

TEST(Error, AMessageIsOnePrintableLineOfBoundedLength) {
  EXPECT_EQ(bad_input("no\nsuch \x1b]0;title\x07").message, "no such \\x1b]0;title\\x07");
  EXPECT_EQ(failed(std::string(1'000'000, '\0')).message.size(), 500u);
  EXPECT_EQ(bad_input("a").kind, Error::Kind::kBadInput);
  EXPECT_EQ(failed("a").kind, Error::Kind::kFailed);
}

}  // namespace
}  // namespace fovea
