// SPDX-License-Identifier: Apache-2.0
#include "base/per_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace fovea {
namespace {

std::atomic<int> alive = 0;

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int value = 0;
};

TEST(PerThread, EveryThreadHasItsOwnWhichEndsWithIt) {
  {
    PerThread<Counted> numbers;
    numbers.here().value = -1;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&numbers, i] {
        EXPECT_EQ(numbers.here().value, 0);
        numbers.here().value = i;
        EXPECT_EQ(numbers.here().value, i);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(numbers.here().value, -1);
    EXPECT_EQ(alive, 1) << "those of the threads that have ended are gone";
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace fovea
