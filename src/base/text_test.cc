// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace fovea
