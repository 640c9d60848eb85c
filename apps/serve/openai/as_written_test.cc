// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/as_written.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/test_values.h"

namespace fovea::serve {
namespace {

TEST(AsWritten, EndsWhereTheReferenceEndsByEachCharacterAtEachPlace) {
  on_every_target([](const std::string& target) {
    for (const size_t size : {1u, 17u, 64u, 131u})
      for (int c = 0; c < 256; ++c)
        for (size_t at = 0; at < size; ++at) {
          std::string text(size, 'A');
          text[at] = static_cast<char>(c);
          ASSERT_EQ(as_written(text), as_written_reference(text))
              << target << ": character " << c << " at " << at << " of " << size;
        }
  });
}

TEST(AsWritten, WhatJsonEscapesOrForbidsIsNot) {
  EXPECT_EQ(as_written(""), 0u);
  EXPECT_EQ(as_written("data:image/png;base64,AZaz09+/= ~"), 33u);
  for (const std::string& text : {std::string("\\n"), std::string("\n"), std::string(1, '\0'),
                                  std::string("\""), std::string("\x7f"), std::string("\xc3\xa9")})
    EXPECT_EQ(as_written("a" + text + "b"), 1u) << text;
}

TEST(AsWritten, MegabytesOfText) {
  std::string text((size_t{3} << 20) + 7, 'A');
  EXPECT_EQ(as_written(text), text.size());
  text.back() = '\\';
  EXPECT_EQ(as_written(text), text.size() - 1);
}

}  // namespace
}  // namespace fovea::serve
