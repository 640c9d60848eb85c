// SPDX-License-Identifier: Apache-2.0
#include "memory/digest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace fovea {
namespace {

std::vector<std::byte> counting(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

std::string hex(const Digest& digest) {
  unsigned char bytes[16];
  std::memcpy(bytes, &digest.low, 8);
  std::memcpy(bytes + 8, &digest.high, 8);
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// The vectors of the authors' own test: key 00 01 .. 0f, input 00 01 .. of each length.
TEST(Hasher, GivesTheAuthorsVectorsOfSipHash128) {
  const auto hash = [](size_t length) {
    return hex(Hasher(0x0706050403020100, 0x0f0e0d0c0b0a0908).bytes(counting(length)).finish());
  };
  EXPECT_EQ(hash(0), "a3817f04ba25a8e66df67214c7550293");
  EXPECT_EQ(hash(1), "da87c1d86b99af44347659119b22fc45");
  EXPECT_EQ(hash(2), "8177228da4a45dc7fca38bdef60affe4");
  EXPECT_EQ(hash(8), "3b62a9ba6258f5610f83e264f31497b4");
}

TEST(Hasher, PiecesGiveWhatTheWholeGives) {
  const auto bytes = counting(100);
  const Digest whole = Hasher(1, 2).bytes(bytes).finish();
  for (size_t first = 0; first <= 20; ++first) {
    for (size_t second = 0; second <= 20; ++second) {
      Hasher hasher(1, 2);
      hasher.bytes(std::span(bytes).first(first)).bytes(std::span(bytes).subspan(first, second));
      hasher.bytes(std::span(bytes).subspan(first + second));
      EXPECT_EQ(hasher.finish(), whole) << first << " and " << second;
    }
  }
}

TEST(Hasher, TextsDoNotRunTogether) {
  EXPECT_NE(Hasher().text("a").text("bc").finish(), Hasher().text("ab").text("c").finish());
  EXPECT_EQ(Hasher().text("a").value(7).finish(), Hasher().text("a").value(7).finish());
  std::set<Digest> all;
  for (int i = 0; i < 1000; ++i) all.insert(Hasher().value(i).finish());
  EXPECT_EQ(all.size(), 1000u);
}

TEST(Hasher, TheKeyDecides) {
  EXPECT_NE(Hasher(1, 2).text("a").finish(), Hasher(1, 3).text("a").finish());
}

}  // namespace
}  // namespace fovea
