// SPDX-License-Identifier: Apache-2.0
#include "serve/picture_store.h"

#include <gtest/gtest.h>

namespace fovea::serve {
namespace {

StoredPicture picture(int side_px, uint8_t value) {
  Image image({side_px, side_px});
  std::fill(image.rgb.begin(), image.rgb.end(), value);
  return {image, {value, 0}};
}

TEST(PictureStore, EachKeyHasNamesOfItsOwn) {
  PictureStore store;
  store.keep(0, "a", picture(4, 1));
  store.keep(1, "a", picture(4, 2));
  EXPECT_EQ(store.find(0, "a")->image.rgb.front(), 1);
  EXPECT_EQ(store.find(1, "a")->image.rgb.front(), 2);
  EXPECT_EQ(store.find(1, "a")->digest, (Digest{2, 0}));
  EXPECT_FALSE(store.find(2, "a"));
  EXPECT_FALSE(store.find(0, "b"));
}

TEST(PictureStore, ANewerPictureOfANameReplacesTheOlder) {
  PictureStore store;
  store.keep(0, "a", picture(4, 1));
  store.keep(0, "a", picture(8, 2));
  EXPECT_EQ(store.find(0, "a")->image.rgb.front(), 2);
}

TEST(PictureStore, WhatWasNotAskedForTheLongestGoesFirst) {
  PictureStore store(3 * (16 * 16 * 3 + 300));
  for (const char* name : {"a", "b", "c"}) store.keep(0, name, picture(16, 1));
  EXPECT_TRUE(store.find(0, "a"));
  store.keep(0, "d", picture(16, 1));
  EXPECT_FALSE(store.find(0, "b"));
  for (const char* name : {"a", "c", "d"}) EXPECT_TRUE(store.find(0, name)) << name;
  store.keep(0, "huge", picture(256, 1));
  EXPECT_FALSE(store.find(0, "huge"));
  store.keep(0, "c", picture(256, 1));  // nor is the one before it
  EXPECT_FALSE(store.find(0, "c"));
  EXPECT_TRUE(store.find(0, "a"));
}

}  // namespace
}  // namespace fovea::serve
