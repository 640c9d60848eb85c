// SPDX-License-Identifier: Apache-2.0
// 100,000 random operations on tables of one pool, against a plain model: a list of stamps for each
// table, and the holders of each page counted anew after every fourth operation.
#include "memory/page_table.h"

#include <algorithm>
#include <map>
#include <random>

#include "memory/test_pools.h"

namespace fovea {
namespace {

using test::kPageBytes;
using test::kPageTokens;
using test::pool_of;
using test::StampedTable;

TEST(PageTable, SharesABeginningAndCopiesWhatItWritesTo) {
  const auto pool = pool_of(20);
  uint64_t stamp = 1;
  StampedTable first(pool);
  ASSERT_TRUE(first.add(10, stamp));  // two pages, and half a one
  StampedTable second(pool);
  ASSERT_TRUE(second.table.share(first.table.pages(), 10));
  second.stamps = first.stamps;
  EXPECT_EQ(pool->usage().resident, 3 * kPageBytes);
  EXPECT_EQ(pool->usage().shared, 3 * kPageBytes);
  // Both pay for them, so that either can go on.
  EXPECT_EQ(pool->usage().reserved, 6 * kPageBytes);
  ASSERT_TRUE(second.add(1, stamp));
  EXPECT_EQ(pool->usage().resident, 4 * kPageBytes);
  EXPECT_EQ(pool->usage().shared, 2 * kPageBytes);
  ASSERT_TRUE(first.add(5, stamp));
  first.check();
  second.check();
  EXPECT_EQ(first.table.pages()[1], second.table.pages()[1]);
  EXPECT_NE(first.table.pages()[2], second.table.pages()[2]);
}

TEST(PageTable, ABeginningMayEndInsideAPage) {
  const auto pool = pool_of(20);
  uint64_t stamp = 1;
  StampedTable first(pool);
  ASSERT_TRUE(first.add(12, stamp));
  StampedTable second(pool);
  ASSERT_TRUE(second.table.share(first.table.pages(), 6));
  second.stamps.assign(first.stamps.begin(), first.stamps.begin() + 6);
  ASSERT_TRUE(second.add(6, stamp));
  first.check();
  second.check();
  EXPECT_EQ(first.table.pages()[0], second.table.pages()[0]);
}

TEST(PageTable, WhatDoesNotFitChangesNothing) {
  const auto pool = pool_of(5);
  uint64_t stamp = 1;
  StampedTable first(pool);
  ASSERT_TRUE(first.add(10, stamp));
  EXPECT_FALSE(first.table.extend(11));
  EXPECT_FALSE(first.table.reserve(21));
  EXPECT_EQ(first.table.capacity(), 12);
  first.check();
  ASSERT_TRUE(first.add(10, stamp));
  first.check();
}

// What the pool must say, from who holds which page.
class PlainPool {
 public:
  explicit PlainPool(int64_t pages) : pages_(pages) {}

  void hold(std::span<const PageId> pages, bool owner) {
    for (const PageId page : pages) ++(owner ? holders_[page].owners : holders_[page].cached);
  }
  void check(const MemoryUsage& usage, int64_t reserved) const {
    int64_t shared = 0;
    int64_t cached = 0;
    int64_t longest = 0;
    PageId next = 0;
    for (const auto& [page, holders] : holders_) {
      longest = std::max<int64_t>(longest, page - next);
      next = page + 1;
      shared += holders.owners + holders.cached > 1 ? 1 : 0;
      cached += holders.owners == 0 ? 1 : 0;
    }
    longest = std::max(longest, pages_ - next);
    const auto resident = static_cast<int64_t>(holders_.size());
    ASSERT_EQ(usage.resident, resident * kPageBytes);
    ASSERT_EQ(usage.shared, shared * kPageBytes);
    ASSERT_EQ(usage.cached, cached * kPageBytes);
    ASSERT_EQ(usage.free, (pages_ - resident) * kPageBytes);
    ASSERT_EQ(usage.largest_free_run, longest * kPageBytes);
    ASSERT_EQ(usage.reserved, reserved * kPageBytes);
    ASSERT_GE(usage.mapped, usage.resident);
    ASSERT_GE(usage.mapped, usage.reserved);
    ASSERT_LE(usage.mapped, usage.capacity);
  }

 private:
  struct Holders {
    int owners = 0;
    int cached = 0;
  };
  int64_t pages_;
  std::map<PageId, Holders> holders_;
};

constexpr int64_t kPoolPages = 48;
constexpr size_t kTables = 8;
constexpr size_t kCaches = 24;

// What an index would hold: pages, and the stamps that must be in them.
struct Cached {
  std::vector<PageId> pages;
  std::vector<uint64_t> stamps;
};

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed), pool_(pool_of(kPoolPages, 5)) {
    for (size_t i = 0; i < kTables; ++i) tables_.emplace_back(pool_);
    caches_.resize(kCaches);
    pool_->on_full([this] { return evict(); });
  }
  ~RandomRun() {
    pool_->on_full(nullptr);
    for (Cached& cache : caches_) forget(cache);
  }

  void step() {
    StampedTable& table = tables_[at(kTables)];
    Cached& cache = caches_[at(kCaches)];
    switch (at(7)) {
      case 0:
      case 1:
        add(table, at(24));
        break;
      case 2:
        table.truncate(at(table.table.size() + 1));
        break;
      case 3:
        reserve(table, at(kPoolPages / 3));
        break;
      case 4:
        remember(table, cache);
        break;
      case 5:
        share(table, cache);
        break;
      default:
        if (at(3) == 0)
          table = StampedTable(pool_);
        else
          probe();
    }
    table.check();
  }

  void check_all() {
    PlainPool plain(kPoolPages);
    int64_t reserved = 0;
    for (const StampedTable& table : tables_) {
      table.check();
      plain.hold(table.table.pages(), true);
      ASSERT_EQ(table.reservation->held(), static_cast<int64_t>(table.table.pages().size()));
      ASSERT_LE(table.reservation->held(), table.reservation->pages());
      reserved += table.reservation->pages();
    }
    for (const Cached& cache : caches_) {
      plain.hold(cache.pages, false);
      for (size_t i = 0; i < cache.stamps.size(); ++i)
        ASSERT_EQ(std::memcmp(pool_->data(cache.pages[i / kPageTokens]) +
                                  i % kPageTokens * test::kTokenBytes,
                              &cache.stamps[i], 8),
                  0);
    }
    ASSERT_LE(reserved, kPoolPages);
    plain.check(pool_->usage(), reserved);
  }

  int64_t refused = 0;
  int64_t evicted = 0;

 private:
  int64_t at(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  void add(StampedTable& table, int64_t count) {
    const int64_t size = table.table.size();
    const int64_t needed = (size + count + kPageTokens - 1) / kPageTokens;
    const bool promised = needed < table.reservation->pages();  // one more, for a page it shares
    const bool added = table.add(count, stamp_);
    ASSERT_TRUE(added || !promised) << "a promise was broken";
    refused += added ? 0 : 1;
  }
  void reserve(StampedTable& table, int64_t pages) {
    int64_t others = 0;
    for (const StampedTable& other : tables_)
      if (&other != &table) others += other.reservation->pages();
    const int64_t most = std::max(pages, table.reservation->held());
    ASSERT_EQ(static_cast<bool>(table.reservation->resize(pages)), others + most <= kPoolPages);
  }
  void remember(StampedTable& table, Cached& cache) {
    forget(cache);
    const int64_t tokens = at(table.table.size() + 1);
    const auto pages = table.table.pages().first((tokens + kPageTokens - 1) / kPageTokens);
    pool_->hold_cached(pages);
    cache.pages.assign(pages.begin(), pages.end());
    cache.stamps.assign(table.stamps.begin(), table.stamps.begin() + tokens);
  }
  void share(StampedTable& table, const Cached& cache) {
    const int64_t tokens = at(static_cast<int64_t>(cache.stamps.size()) + 1);
    const bool shared = table.table.share(cache.pages, tokens);
    table.stamps.assign(cache.stamps.begin(), cache.stamps.begin() + (shared ? tokens : 0));
  }
  void forget(Cached& cache) {
    pool_->drop_cached(cache.pages);
    cache = {};
  }
  bool evict() {
    for (Cached& cache : caches_) {
      if (!pool_->any_idle(cache.pages)) continue;
      forget(cache);
      ++evicted;
      return true;
    }
    return false;
  }
  // A page shows nothing of its last owner, and leaves poison for the next.
  void probe() {
    Reservation one(pool_);
    const PageId page = one.take();
    if (page == kNoPage) return;
    std::byte* data = pool_->data(page);
    for (int64_t i = 0; i < kPageBytes; ++i) ASSERT_EQ(data[i], std::byte{0}) << "page " << page;
    std::memset(data, 0xab, kPageBytes);
    one.drop({&page, 1});
  }

  std::mt19937_64 random_;
  std::shared_ptr<PagePool> pool_;
  std::vector<StampedTable> tables_;
  std::vector<Cached> caches_;
  uint64_t stamp_ = 1;
};

TEST(PageTable, RandomOperationsKeepEveryTokenAndEveryPromise) {
  RandomRun run(2026);
  for (int i = 0; i < 100'000; ++i) {
    run.step();
    if (i % 4 == 0) run.check_all();
    if (testing::Test::HasFatalFailure()) FAIL() << "after operation " << i;
  }
  // The pool was full often enough.
  EXPECT_GT(run.refused, 1000);
  EXPECT_GT(run.evicted, 1000);
}

}  // namespace
}  // namespace fovea
