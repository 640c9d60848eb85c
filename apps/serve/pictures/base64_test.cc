// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/base64.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ops/test_values.h"

namespace fovea::serve {
namespace {

constexpr std::string_view kPlain =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kForUrls =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string random_text(size_t size, std::string_view alphabet, std::mt19937& random) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += alphabet[random() % alphabet.size()];
  return text;
}

TEST(Base64, GivesTheReferencesBytesOfEveryLength) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(1);
    for (const std::string_view alphabet : {kPlain, kForUrls})
      for (size_t size = 0; size < 400; ++size) {
        if (size % 4 == 1) continue;
        const std::string text = random_text(size, alphabet, random);
        std::vector<uint8_t> bytes;
        std::vector<uint8_t> expected;
        ASSERT_TRUE(decode_base64(text, bytes)) << target << " " << text;
        ASSERT_TRUE(decode_base64_reference(text, expected));
        ASSERT_EQ(bytes, expected) << target << " " << text;
      }
  });
}

TEST(Base64, TakesTheCharactersThatTheReferenceTakesAtEveryPlace) {
  on_every_target([](const std::string& target) {
    for (size_t at = 0; at < 131; ++at)
      for (int c = 0; c < 256; ++c) {
        std::string text(131, 'A');
        text[at] = static_cast<char>(c);
        std::vector<uint8_t> bytes;
        std::vector<uint8_t> expected;
        const bool taken = decode_base64(text, bytes);
        ASSERT_EQ(taken, decode_base64_reference(text, expected))
            << target << " " << c << " at " << at;
        if (!taken) continue;
        ASSERT_EQ(bytes, expected) << target << " " << c << " at " << at;
      }
  });
}

}  // namespace
}  // namespace fovea::serve
