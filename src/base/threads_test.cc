// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

namespace fovea {
namespace {

TEST(Threads, EveryItemIsVisitedOnceForAnyThreadCount) {
  for (const int count : {1, 2, 3, 8}) {
    Threads threads(count);
    EXPECT_EQ(threads.size(), count);
    for (const int64_t items : {0, 1, 2, 7, 1000}) {
      for (const int64_t chunk : {1, 3, 64}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(items));
        threads.for_each(items, chunk, [&](int64_t begin, int64_t end) {
          EXPECT_LE(end - begin, chunk);
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (const auto& visit : visits) EXPECT_EQ(visit, 1);
      }
    }
  }
}

TEST(Threads, ALoopInsideALoopRuns) {
  Threads threads(3);
  std::atomic<int> sum = 0;
  threads.for_each(10, 1, [&](int64_t, int64_t) {
    threads.for_each(10, 1,
                     [&](int64_t begin, int64_t end) { sum += static_cast<int>(end - begin); });
  });
  EXPECT_EQ(sum, 100);
}

TEST(Threads, ManyShortLoopsFromTwoCallers) {
  Threads threads(2);
  std::atomic<int64_t> sum = 0;
  const auto call = [&] {
    for (int i = 0; i < 500; ++i)
      threads.for_each(16, 1, [&](int64_t begin, int64_t) { sum += begin; });
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum, 2 * 500 * 120);
}

TEST(Threads, WhatABodyThrowsReachesTheCallerAndTheNextLoopRuns) {
  for (const int count : {1, 2, 8}) {
    Threads threads(count);
    for (const int64_t bad : {0, 1, 50, 99}) {
      const auto body = [&](int64_t begin, int64_t) {
        if (begin == bad) throw std::bad_alloc();
      };
      EXPECT_THROW(threads.for_each(100, 1, body), std::bad_alloc) << count << ' ' << bad;
      std::atomic<int> visits = 0;
      threads.for_each(100, 1, [&](int64_t, int64_t) { ++visits; });
      EXPECT_EQ(visits, 100);
    }
    EXPECT_THROW(threads.for_each(100, 1, [](int64_t, int64_t) { throw std::bad_alloc(); }),
                 std::bad_alloc)
        << "every thread throws";
  }
}

TEST(Threads, GoOnWithThoseThatCouldBeStarted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more of the address space than the limit leaves";
#endif
  // A process of its own, since a limit holds for all of it. Stacks are of 8 MB.
  EXPECT_EXIT(
      {
        rlimit most{};
        most.rlim_cur = most.rlim_max = 500'000'000;
        setrlimit(RLIMIT_AS, &most);
        Threads threads(1000);
        std::atomic<int> visits = 0;
        threads.for_each(1000, 1, [&](int64_t, int64_t) { ++visits; });
        std::_Exit(threads.size() >= 1 && threads.size() < 1000 && visits == 1000 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(UsableCores, IsAtLeastOne) { EXPECT_GE(usable_cores(), 1); }

}  // namespace
}  // namespace fovea
