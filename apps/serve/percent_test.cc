// SPDX-License-Identifier: Apache-2.0
#include "serve/percent.h"

#include <gtest/gtest.h>

namespace fovea::serve {
namespace {

TEST(Percent, IsDecodedOnce) {
  EXPECT_EQ(percent_decoded("org%2Fmodel"), "org/model");
  EXPECT_EQ(percent_decoded("org%2fmodel"), "org/model");
  EXPECT_EQ(percent_decoded("a%2541"), "a%41");
  EXPECT_EQ(percent_decoded("%41"), "A");
  EXPECT_EQ(percent_decoded("plain+text"), "plain+text");
  EXPECT_EQ(percent_decoded(""), "");
}

TEST(Percent, WithoutTwoDigitsIsNothing) {
  for (const char* text : {"%", "%4", "a%4", "%4g", "%g4", "%%41"})
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
}

}  // namespace
}  // namespace fovea::serve
