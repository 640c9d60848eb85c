// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/normalize.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

std::string by_utf8proc(const std::string& text) {
  auto* const raw = reinterpret_cast<char*>(
      utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())));
  std::string composed = raw;
  std::free(raw);  // NOLINT: utf8proc allocates with malloc
  return composed;
}

// A character that Unicode 9 and newer versions treat alike.
uint32_t settled_char(std::mt19937& random) {
  static const std::vector<std::pair<uint32_t, uint32_t>> kRanges = {
      {0x41, 0x5A},     {0xC0, 0x24F},    {0x300, 0x36F},     {0x300, 0x36F},    {0x390, 0x3CE},
      {0x591, 0x5BD},   {0x5D0, 0x5EA},   {0x64B, 0x655},     {0x915, 0x963},    {0xDD8, 0xDDE},
      {0xF40, 0xF84},   {0x1100, 0x1112}, {0x1161, 0x1175},   {0x11A8, 0x11C2},  {0x1E00, 0x1EFF},
      {0x1F00, 0x1FFE}, {0x212A, 0x212B}, {0x3041, 0x3096},   {0x3099, 0x309A},  {0xAC00, 0xD7A3},
      {0xF900, 0xFAD9}, {0xFB1D, 0xFB4E}, {0x1D15E, 0x1D172}, {0x2F800, 0x2FA1D}};
  const auto& [first, last] = kRanges[random() % kRanges.size()];
  return first + random() % (last - first + 1);
}

TEST(Nfc, EqualsTheLibraryOnRandomTexts) {
  std::mt19937 random(2);
  int changed = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string text;
    for (unsigned n = random() % 10; n > 0; --n) append_utf8(text, settled_char(random));
    const std::string expected = by_utf8proc(text);
    ASSERT_EQ(nfc(text), expected) << text;
    changed += expected != text ? 1 : 0;
    ASSERT_TRUE(!is_surely_nfc(text) || text == expected) << "the quick check lied: " << text;
    ASSERT_EQ(nfc(expected), expected) << "composed text stays as it is";
  }
  EXPECT_GT(changed, 10000);
}

TEST(Nfc, LeavesCharactersYoungerThanUnicode9Alone) {
  // U+1ABF has class 220 since Unicode 13; before, it was no mark, and stays where it stands.
  EXPECT_EQ(nfc("q\u0301\u1ABF\u0323"), "q\u0301\u1ABF\u0323");
  EXPECT_EQ(nfc("q\u0301\u0323"), "q\u0323\u0301");
  EXPECT_EQ(nfc("\U00011935\U00011930"), "\U00011935\U00011930");
}

TEST(Nfc, TakesALongRunOfMarksInGoodTime) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += "\u0301\u0323";
  const auto start = std::chrono::steady_clock::now();
  const std::string composed = nfc(text);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 20) << "quadratic time would be hours";
  EXPECT_EQ(composed.substr(0, 5), "\u1EA1\u0323");
}

TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("a\x80z"), "a" + bad + "z");
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82"), bad);
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98z"), bad + "z");
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), bad + bad);
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), bad + bad + bad);
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(replace_invalid_utf8("\xE0\x80"), bad + bad);
}

TEST(Utf8, FindsTheFirstBrokenByteAtAnyPlace) {
  for (size_t at = 0; at < 40; ++at) {
    std::string text(40, 'x');
    text[at] = '\xFF';
    EXPECT_EQ(valid_utf8_prefix(text), at);
    text.replace(at, 1, "\u20AC");
    EXPECT_EQ(valid_utf8_prefix(text), text.size());
  }
}

TEST(Utf8, WritesWhatItReads) {
  for (uint32_t c = 0; c < kCodePoints; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const CodePoint read = read_code_point(text.c_str());
    ASSERT_EQ(read.value, c);
    ASSERT_EQ(read.bytes, text.size());
    ASSERT_EQ(valid_utf8_prefix(text), text.size()) << std::hex << c;
  }
}

}  // namespace
}  // namespace fovea
