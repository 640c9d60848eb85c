// SPDX-License-Identifier: Apache-2.0
#include "serve/room_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea::serve {
namespace {

TEST(RoomQueue, WhoWaitsTriesAgainWhenAnotherEndsInTheOrderTheyCame) {
  RoomQueue queue;
  std::string tried;
  const int a = 0;
  const int b = 0;
  for (int i = 0; i < 3; ++i) queue.enter();
  EXPECT_TRUE(queue.wait(&a, [&] { tried += 'a'; }));
  EXPECT_TRUE(queue.wait(&b, [&] { tried += 'b'; }));
  EXPECT_EQ(tried, "");
  queue.leave();
  EXPECT_EQ(tried, "ab");
  EXPECT_EQ(queue.size(), 2);
  queue.leave();  // nobody waits any more
  EXPECT_EQ(tried, "ab");
}

TEST(RoomQueue, NobodyWaitsForOthersThatWaitThemselves) {
  RoomQueue queue;
  const int a = 0;
  const int b = 0;
  queue.enter();
  EXPECT_FALSE(queue.wait(&a, [] {})) << "it is alone";
  queue.enter();
  EXPECT_TRUE(queue.wait(&a, [] {}));
  EXPECT_FALSE(queue.wait(&b, [] {})) << "both would wait for ever";
}

TEST(RoomQueue, OneWhoFindsNoRoomAgainMayWaitAgain) {
  RoomQueue queue;
  const int a = 0;
  int tries = 0;
  for (int i = 0; i < 3; ++i) queue.enter();
  std::function<void()> again = [&] {
    ++tries;
    if (queue.size() == 1) return;
    EXPECT_TRUE(queue.wait(&a, again));
  };
  again();
  queue.leave();
  queue.leave();
  EXPECT_EQ(tries, 3);
}

TEST(RoomQueue, OneWhoIsHurriedTriesOnce) {
  RoomQueue queue;
  const int a = 0;
  const int b = 0;
  int tries = 0;
  queue.enter();
  queue.enter();
  EXPECT_TRUE(queue.wait(&a, [&] { ++tries; }));
  queue.hurry(&b);
  EXPECT_EQ(tries, 0);
  queue.hurry(&a);
  EXPECT_EQ(tries, 1);
  queue.leave();
  EXPECT_EQ(tries, 1);
}

}  // namespace
}  // namespace fovea::serve
