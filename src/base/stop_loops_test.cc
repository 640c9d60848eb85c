// SPDX-License-Identifier: Apache-2.0
#include "base/stop_loops.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/threads.h"

namespace fovea {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kItems = 4000;

void sleep_each(Threads& threads, std::atomic<int64_t>& done) {
  threads.for_each(kItems, 1, [&](int64_t, int64_t) {
    std::this_thread::sleep_for(milliseconds(5));
    ++done;
  });
}

TEST(StopLoops, ALoopOfManySecondsEndsSoonAfterTheNo) {
  for (const int count : {1, 3}) {
    Threads threads(count);
    std::atomic<int64_t> done = 0;
    const auto caller = std::this_thread::get_id();
    int asked = 0;
    const std::function<bool()> keep_going = [&] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      return ++asked < 3;
    };
    const auto start = steady_clock::now();
    StopLoops stop(keep_going);
    sleep_each(threads, done);
    EXPECT_TRUE(stop.stopped());
    EXPECT_EQ(asked, 3);
    EXPECT_GE(steady_clock::now() - start, 3 * StopLoops::kAskEvery) << "not asked at each item";
    EXPECT_LT(done, kItems);
    const int64_t before = done;
    sleep_each(threads, done);
    EXPECT_EQ(done, before) << "loops that follow do nothing";
    EXPECT_FALSE(stop.keep_going());
    EXPECT_EQ(asked, 3) << "a no is not asked again";
  }
}

TEST(StopLoops, EndsWithItsLifeAndBindsItsThreadAlone) {
  Threads threads(2);
  std::atomic<int> done = 0;
  const auto count = [&] { threads.for_each(10, 1, [&](int64_t, int64_t) { ++done; }); };
  const std::function<bool()> never = [] { return false; };
  {
    StopLoops stop(never);
    EXPECT_FALSE(stop.keep_going());
    count();
    EXPECT_EQ(done, 0);
    std::thread other(count);
    other.join();
    EXPECT_EQ(done, 10) << "another thread's loops go on";
  }
  count();
  EXPECT_EQ(done, 20);
}

TEST(StopLoops, WithoutAQuestionNothingIsStopped) {
  Threads threads(2);
  std::atomic<int> done = 0;
  const std::function<bool()> none;
  StopLoops stop(none);
  threads.for_each(10, 1, [&](int64_t, int64_t) { ++done; });
  EXPECT_EQ(done, 10);
  EXPECT_TRUE(stop.keep_going());
  EXPECT_FALSE(stop.stopped());
}

TEST(StopLoops, WhatTheQuestionThrowsReachesTheCaller) {
  Threads threads(2);
  std::atomic<int64_t> done = 0;
  const std::function<bool()> throws = []() -> bool { throw std::runtime_error("asked"); };
  const StopLoops stop(throws);
  EXPECT_THROW(sleep_each(threads, done), std::runtime_error);
}

}  // namespace
}  // namespace fovea
