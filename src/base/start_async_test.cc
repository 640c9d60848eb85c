// SPDX-License-Identifier: Apache-2.0
#include "base/start_async.h"

#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace fovea {
namespace {

TEST(StartAsync, WorksOnAThreadOfItsOwn) {
  auto work = start_async([] { return std::this_thread::get_id(); });
  EXPECT_NE(work.get(), std::this_thread::get_id());
}

TEST(StartAsync, WhatTheWorkThrowsIsThrownByGet) {
  auto work = start_async([]() -> int { throw std::bad_alloc(); });
  EXPECT_THROW(work.get(), std::bad_alloc);
}

TEST(StartAsync, WorksWhereItIsWaitedForWhenNoThreadCanBeStarted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more of the address space than the limit leaves";
#endif
  // A process of its own, since a limit holds for all of it: no stack fits, small objects do.
  EXPECT_EXIT(
      {
        std::vector<std::unique_ptr<char[]>> small(100);
        for (auto& room : small) room = std::make_unique<char[]>(1000);
        small.clear();
        pthread_attr_t large;  // stacks of earlier threads are kept, and are too small
        pthread_attr_init(&large);
        pthread_attr_setstacksize(&large, size_t{64} << 20);
        pthread_setattr_default_np(&large);
        rlimit most{};
        most.rlim_cur = most.rlim_max = 1;
        setrlimit(RLIMIT_AS, &most);
        auto work = start_async([] { return std::this_thread::get_id(); });
        std::_Exit(work.get() == std::this_thread::get_id() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fovea
