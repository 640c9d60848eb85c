// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/picture_room.h"

#include <gtest/gtest.h>

namespace fovea::serve {
namespace {

TEST(PictureRoom, GivesNoMoreThanThereIs) {
  PictureRoom room(300);
  PictureRoom::Share first;
  EXPECT_TRUE(room.take(60, first));
  EXPECT_TRUE(room.take(20, first));
  {
    PictureRoom::Share second;
    EXPECT_FALSE(room.take(21, second));
    EXPECT_TRUE(room.take(20, second));
    EXPECT_EQ(room.taken(), 300);
  }
  EXPECT_EQ(room.taken(), 240);
  first.give_back();
  first.give_back();
  EXPECT_EQ(room.taken(), 0);
  EXPECT_TRUE(room.take(100, first));
  EXPECT_FALSE(room.take(INT64_MAX, first));
}

TEST(PictureRoom, WhatIsNoPictureHasNoPixels) {
  EXPECT_EQ(pixels_of({}, {}), 0);
  const uint8_t text[] = {'t', 'e', 'x', 't'};
  EXPECT_EQ(pixels_of(text, {}), 0);
}

}  // namespace
}  // namespace fovea::serve
