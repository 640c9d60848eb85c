// SPDX-License-Identifier: Apache-2.0
#include "memory/page_pool.h"

#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "memory/prefix_index.h"
#include "memory/test_canaries.h"
#include "memory/test_pools.h"

namespace fovea {
namespace {

using test::kPageBytes;
using test::pool_of;

TEST(PagePool, PromisesNoMoreThanItHas) {
  const auto pool = pool_of(10);
  Reservation first(pool);
  Reservation second(pool);
  ASSERT_TRUE(first.resize(7));
  const Status refused = second.resize(4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::kFailed);
  // Both figures: 4 pages of 128 B are missing, 3 are left of 10.
  EXPECT_EQ(refused.error().message,
            "keys and values need 512 B more of memory, but 384 B of 1.3 kB are left");
  EXPECT_EQ(second.pages(), 0);
  ASSERT_TRUE(second.resize(3));
  EXPECT_EQ(pool->usage().reserved, 10 * kPageBytes);
  ASSERT_TRUE(first.resize(1));
  EXPECT_EQ(pool->usage().reserved, 4 * kPageBytes);
  EXPECT_FALSE(first.resize(int64_t{1} << 62));
}

TEST(PagePool, GivesWhatItPromisedThoughOthersWantIt) {
  const auto pool = pool_of(10);
  Reservation promised(pool);
  ASSERT_TRUE(promised.resize(6));
  Reservation greedy(pool);
  std::vector<PageId> taken;
  for (PageId page = greedy.take(); page != kNoPage; page = greedy.take()) taken.push_back(page);
  EXPECT_EQ(taken.size(), 4u);
  std::vector<PageId> own;
  for (int i = 0; i < 6; ++i) own.push_back(promised.take());
  for (const PageId page : own) EXPECT_NE(page, kNoPage);
  EXPECT_EQ(promised.take(), kNoPage);
  // Never below what is held.
  ASSERT_TRUE(promised.resize(0));
  EXPECT_EQ(promised.pages(), 6);
  promised.drop(own);
  ASSERT_TRUE(promised.resize(0));
  EXPECT_EQ(promised.pages(), 0);
  greedy.drop(taken);
}

TEST(PagePool, TakesMemoryAsItIsNeededAndGivesItBack) {
  const auto pool = pool_of(30, 4);
  EXPECT_EQ(pool->usage().mapped, 0);
  {
    Reservation some(pool);
    ASSERT_TRUE(some.resize(5));
    EXPECT_EQ(pool->usage().mapped, 8 * kPageBytes);
    ASSERT_TRUE(some.resize(30));
    EXPECT_EQ(pool->usage().mapped, 30 * kPageBytes);
    const PageId page = some.take();
    EXPECT_EQ(pool->usage().largest_free_run, 29 * kPageBytes);
    ASSERT_TRUE(some.resize(1));
    some.drop({&page, 1});
  }
  const MemoryUsage idle = pool->usage();
  EXPECT_EQ(idle.resident, 0);
  EXPECT_EQ(idle.free, 30 * kPageBytes);
  EXPECT_EQ(idle.largest_free_run, 30 * kPageBytes);
  EXPECT_LE(idle.mapped, 4 * kPageBytes);
}

// A system that gives three pieces, then none.
TEST(PagePool, ASystemWithoutMemoryIsAnErrorOfTheReservation) {
  int pieces = 0;
  auto settings = PagePool::Settings{
      .page_bytes = kPageBytes, .capacity_bytes = 100 * kPageBytes, .piece_bytes = 4 * kPageBytes};
  settings.map = [&](size_t bytes) {
    return pieces < 3 ? ++pieces, std::calloc(1, bytes) : nullptr;
  };
  settings.unmap = [&](void* memory, size_t) { --pieces, std::free(memory); };
  {
    const auto pool = std::make_shared<PagePool>(settings);
    Reservation first(pool);
    ASSERT_TRUE(first.resize(9));
    Reservation second(pool);
    const Status refused = second.resize(8);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("1.0 kB more"), std::string::npos)
        << refused.error().message;
    ASSERT_TRUE(second.resize(3));
    std::vector<PageId> pages;
    for (int i = 0; i < 9; ++i) pages.push_back(first.take());
    for (const PageId page : pages) EXPECT_NE(page, kNoPage);
    EXPECT_EQ(first.take(), kNoPage);
    first.drop(pages);
  }
  EXPECT_EQ(pieces, 0);
}

TEST(PagePool, AWatchSeesWhatIsGivenBackBeforeItIsCleared) {
  const auto pool = pool_of(2);
  std::byte found{};
  int taken = 0;
  pool->watch({.given_back =
                   [&](std::span<std::byte> page) {
                     EXPECT_EQ(page.size(), size_t{kPageBytes});
                     found = page.front();
                     page.back() = std::byte{9};
                   },
               .taken =
                   [&](std::span<const std::byte> page) {
                     ++taken;
                     for (const std::byte byte : page) EXPECT_EQ(byte, std::byte{0});
                   }});
  Reservation one(pool);
  for (int i = 1; i < 4; ++i) {
    const PageId page = one.take();
    EXPECT_EQ(taken, i);
    EXPECT_EQ(found, std::byte(i - 1));
    *pool->data(page) = std::byte(i);
    pool->hold_cached({&page, 1});
    one.drop({&page, 1});
    EXPECT_EQ(found, std::byte(i - 1)) << "it is held still";
    pool->drop_cached({&page, 1});
    EXPECT_EQ(found, std::byte(i));
  }
}

// Threads with tables of their own and beginnings that they share, in a pool that is too small.
TEST(PagePool, ThreadsNeverSeeEachOthersBytes) {
  const auto pool = pool_of(60, 7);
  const test::Canaries canaries(pool);
  PrefixIndex index(pool, 40 * kPageBytes);
  std::atomic<int> checked = 0;
  const auto work = [&](uint64_t number) {
    std::mt19937_64 random(number);
    uint64_t stamp = number << 40;
    // All threads agree on what these tokens are: stamp = key.
    std::vector<Digest> key;
    for (uint64_t i = 0; i < 10; ++i) key.push_back({i, 7});
    const std::vector<int64_t> ends = {3, 10};
    for (int round = 0; round < 300; ++round) {
      test::StampedTable one(pool);
      if (!one.reservation->resize(10)) continue;
      PageTable* layers[] = {&one.table};
      const auto found = index.find(key, ends, 0, layers);
      for (int64_t i = 0; i < found.tokens; ++i) one.stamps.push_back(static_cast<uint64_t>(i));
      uint64_t agreed = static_cast<uint64_t>(found.tokens);
      ASSERT_TRUE(one.add(10 - found.tokens, agreed)) << "a promise was broken";
      const PageTable* tables[] = {&one.table};
      index.insert(key, tables, nullptr);
      one.truncate(static_cast<int64_t>(random() % 11));
      ASSERT_TRUE(one.add(static_cast<int64_t>(random() % 20), stamp)) << "a promise was broken";
      one.check();
      ++checked;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(checked, 300);
  while (index.evict()) {
  }
  EXPECT_EQ(pool->usage().resident, 0);
  canaries.expect_unseen(0);
}

}  // namespace
}  // namespace fovea
