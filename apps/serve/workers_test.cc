// SPDX-License-Identifier: Apache-2.0
#include "serve/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <vector>

namespace fovea::serve {
namespace {

TEST(OneByOne, JobsThatWaitHoldNoThread) {
  OneByOne queue;
  std::promise<void> open;
  std::promise<void> begun;
  std::vector<int> ran;
  std::thread first([&] {
    queue.run([&] {
      begun.set_value();
      open.get_future().wait();
      ran.push_back(0);
    });
  });
  begun.get_future().wait();
  for (int i = 1; i < 4; ++i) queue.run([&ran, i] { ran.push_back(i); });  // returns at once
  EXPECT_TRUE(ran.empty());
  open.set_value();
  first.join();
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3}));
  queue.run([&] { ran.push_back(4); });
  EXPECT_EQ(ran.back(), 4);
}

TEST(OneByOne, GoesOnAfterOneWithoutMemory) {
  OneByOne queue;
  bool ran = false;
  queue.run([&] {
    queue.run([&] { ran = true; });
    EXPECT_FALSE(ran) << "one at a time";
    throw std::bad_alloc();
  });
  EXPECT_TRUE(ran);
}

TEST(Workers, RunWhatIsAddedWhileOneWaits) {
  std::promise<void> open;
  std::promise<void> ran;
  Workers workers;
  ASSERT_EQ(workers.start(2), 2);
  workers.add([&] { open.get_future().wait(); });
  workers.add([&] { ran.set_value(); });
  ran.get_future().wait();
  open.set_value();
}

}  // namespace
}  // namespace fovea::serve
