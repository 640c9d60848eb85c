// SPDX-License-Identifier: Apache-2.0
#include "memory/prefix_index.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "memory/test_pools.h"

namespace fovea {
namespace {

using test::kPageBytes;
using test::pool_of;
using test::StampedTable;

std::vector<Digest> key_of(std::initializer_list<uint64_t> tokens) {
  std::vector<Digest> key;
  for (const uint64_t token : tokens) key.push_back({token, 0});
  return key;
}

std::vector<Digest> long_key(uint64_t first, uint64_t count) {
  std::vector<Digest> key;
  for (uint64_t i = 0; i < count; ++i) key.push_back({first + i, 0});
  return key;
}

class PrefixIndexTest : public testing::Test {
 protected:
  void insert(const StampedTable& table, const std::vector<Digest>& key,
              std::shared_ptr<const void> extra = nullptr) {
    const PageTable* layers[] = {&table.table};
    index.insert(key, layers, std::move(extra));
  }
  PrefixIndex::Found find(StampedTable& table, const std::vector<Digest>& key,
                          std::vector<int64_t> ends, int64_t more_than = 0) {
    PageTable* layers[] = {&table.table};
    return index.find(key, ends, more_than, layers);
  }

  std::shared_ptr<PagePool> pool = pool_of(40);
  PrefixIndex index{pool, 30 * kPageBytes};
  uint64_t stamp = 1;
};

TEST_F(PrefixIndexTest, FindsTheLongestBeginningAtAnEnd) {
  StampedTable first(pool);
  ASSERT_TRUE(first.add(9, stamp));
  insert(first, key_of({1, 2, 3, 4, 5, 6, 7, 8, 9}), std::make_shared<int>(7));
  StampedTable other(pool);
  ASSERT_TRUE(other.add(3, stamp));
  insert(other, key_of({1, 2, 4}));

  StampedTable second(pool);
  const auto found = find(second, key_of({1, 2, 3, 4, 5, 6, 70, 80, 90, 100}), {2, 5, 8});
  EXPECT_EQ(found.tokens, 5);
  EXPECT_EQ(*static_cast<const int*>(found.extra.get()), 7);
  second.stamps.assign(first.stamps.begin(), first.stamps.begin() + 5);
  second.check();
  ASSERT_TRUE(second.add(8, stamp));
  first.check();
  second.check();
  EXPECT_EQ(pool->usage().hits, 1);
}

TEST_F(PrefixIndexTest, FindsNothingWhereNothingIsGained) {
  StampedTable first(pool);
  ASSERT_TRUE(first.add(6, stamp));
  insert(first, key_of({1, 2, 3, 4, 5, 6}));
  StampedTable second(pool);
  EXPECT_EQ(find(second, key_of({9, 2, 3}), {1, 2, 3}).tokens, 0);
  EXPECT_EQ(find(second, key_of({1, 2, 3}), {1, 3}, 3).tokens, 0);
  EXPECT_EQ(find(second, key_of({1, 2, 3}), {}).tokens, 0);
  EXPECT_EQ(find(second, {}, {1}).tokens, 0);
  EXPECT_EQ(pool->usage().hits, 0);
}

TEST_F(PrefixIndexTest, KeepsABeginningThatItsMakerForgot) {
  std::vector<uint64_t> stamps;
  {
    StampedTable first(pool);
    ASSERT_TRUE(first.add(6, stamp));
    insert(first, long_key(1, 6));
    stamps = first.stamps;
    first.truncate(2);
    ASSERT_TRUE(first.add(20, stamp));
  }
  EXPECT_EQ(pool->usage().cached, 2 * kPageBytes);
  StampedTable second(pool);
  ASSERT_EQ(find(second, long_key(1, 10), {6}).tokens, 6);
  second.stamps = stamps;
  second.check();
}

TEST_F(PrefixIndexTest, WhatWasUsedLongestAgoGoesFirstAndNothingInUseGoes) {
  for (uint64_t i = 0; i < 3; ++i) {
    StampedTable one(pool);
    ASSERT_TRUE(one.add(40, stamp));
    insert(one, long_key(100 * i, 40));  // 10 pages each
  }
  ASSERT_EQ(index.entries(), 3);
  std::optional<StampedTable> user(pool);
  ASSERT_EQ(find(*user, long_key(0, 40), {40}).tokens, 40);  // the oldest, now in use
  StampedTable hungry(pool);
  ASSERT_TRUE(hungry.add(80, stamp));  // 10 were free; the entry of 100 goes
  EXPECT_EQ(index.entries(), 2);
  EXPECT_EQ(pool->usage().evictions, 1);
  StampedTable probe(pool);
  EXPECT_EQ(find(probe, long_key(100, 40), {40}).tokens, 0);
  ASSERT_TRUE(hungry.add(40, stamp));  // then that of 200
  EXPECT_EQ(index.entries(), 1);
  EXPECT_FALSE(hungry.table.extend(1)) << "the user's pages are not for others";
  EXPECT_EQ(index.entries(), 1);
  user.reset();
  ASSERT_TRUE(hungry.add(1, stamp));
  EXPECT_EQ(index.entries(), 0);
  hungry.check();
}

TEST_F(PrefixIndexTest, EntriesThatShareAPageMakeRoomToo) {
  {
    StampedTable one(pool);
    ASSERT_TRUE(one.add(12, stamp));
    insert(one, long_key(1, 4));
    insert(one, long_key(1, 12));
    insert(one, long_key(1, 11));
  }
  EXPECT_EQ(pool->usage().cached, 3 * kPageBytes);
  EXPECT_EQ(pool->usage().shared, 3 * kPageBytes);
  StampedTable hungry(pool);
  ASSERT_TRUE(hungry.add(160, stamp));
  EXPECT_EQ(index.entries(), 0);
}

TEST_F(PrefixIndexTest, HoldsNoMoreThanItsShare) {
  for (uint64_t i = 0; i < 10; ++i) {
    StampedTable one(pool);
    ASSERT_TRUE(one.add(40, stamp));
    insert(one, long_key(100 * i, 40));
    EXPECT_LE(pool->usage().cached, 30 * kPageBytes);
  }
  EXPECT_EQ(index.entries(), 4);  // the last one was in use when it came
}

// Against a plain search through all keys.
TEST_F(PrefixIndexTest, RandomKeysAreFoundAsAPlainSearchFindsThem) {
  std::mt19937_64 random(3);
  std::vector<std::vector<Digest>> known;
  const auto random_key = [&] {
    std::vector<Digest> key(1 + random() % 8);
    for (Digest& digest : key) digest = {random() % 3, 0};
    return key;
  };
  StampedTable source(pool);
  ASSERT_TRUE(source.add(8, stamp));
  std::vector<int64_t> every = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int i = 0; i < 2000; ++i) {
    const auto key = random_key();
    int64_t longest = 0;
    for (const auto& other : known) {
      const auto differs = std::mismatch(key.begin(), key.end(), other.begin(), other.end());
      longest = std::max<int64_t>(longest, differs.first - key.begin());
    }
    StampedTable table(pool);
    ASSERT_EQ(find(table, key, every).tokens, longest);
    if (i % 20 != 0) continue;
    insert(source, key);
    known.push_back(key);
  }
}

}  // namespace
}  // namespace fovea
