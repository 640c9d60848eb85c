// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/base64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

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

// What a decoder makes of a text: the characters that it takes, and their bytes.
struct Decoded {
  size_t taken = 0;
  std::vector<uint8_t> bytes;

  bool operator==(const Decoded&) const = default;
};

Decoded decoded(size_t decode(std::string_view, uint8_t*), std::string_view text) {
  Decoded made;
  made.bytes.resize(bytes_of_base64(text.size()));
  made.taken = decode(text, made.bytes.data());
  made.bytes.resize(made.taken * 3 / 4);
  return made;
}

TEST(Base64, GivesTheReferencesBytesOfEveryLength) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(1);
    for (const std::string_view alphabet : {kPlain, kForUrls})
      for (size_t size = 0; size < 400; ++size) {
        if (size % 4 == 1) continue;
        const std::string text = random_text(size, alphabet, random);
        const Decoded made = decoded(decode_base64, text);
        ASSERT_EQ(made.taken, size) << target << " " << text;
        ASSERT_EQ(made, decoded(decode_base64_reference, text)) << target << " " << text;
      }
  });
}

TEST(Base64, TakesTheCharactersThatTheReferenceTakesAtEveryPlace) {
  on_every_target([](const std::string& target) {
    for (size_t at = 0; at < 131; ++at)
      for (int c = 0; c < 256; ++c) {
        std::string text(131, 'A');
        text[at] = static_cast<char>(c);
        ASSERT_EQ(decoded(decode_base64, text), decoded(decode_base64_reference, text))
            << target << " " << c << " at " << at;
      }
  });
}

TEST(Base64, WhereTheTextStandsItsBytesAreTheSameAndWhatIsForeignStays) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(2);
    for (size_t size = 0; size < 400; ++size) {
      if (size % 4 == 1) continue;
      std::string text = random_text(size, kPlain, random);
      if (size % 3 == 0 && size > 0) text[random() % size] = '!';
      const Decoded expected = decoded(decode_base64_reference, text);
      std::string place = text;
      auto* const bytes = reinterpret_cast<uint8_t*>(place.data());
      const size_t taken = decode_base64(place, bytes);
      ASSERT_EQ(taken, expected.taken) << target << " " << text;
      ASSERT_TRUE(std::equal(expected.bytes.begin(), expected.bytes.end(), bytes))
          << target << " " << text;
      ASSERT_EQ(place.substr(taken), text.substr(taken)) << target;
    }
  });
}

}  // namespace
}  // namespace fovea::serve
