// SPDX-License-Identifier: Apache-2.0
// Small pools for tests, and tokens that show whose they are.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "memory/page_pool.h"
#include "memory/page_table.h"

namespace fovea::test {

inline constexpr int64_t kTokenBytes = 32;
inline constexpr int64_t kPageTokens = 4;
inline constexpr int64_t kPageBytes = kTokenBytes * kPageTokens;

inline std::shared_ptr<PagePool> pool_of(int64_t pages, int64_t piece_pages = 3) {
  return std::make_shared<PagePool>(PagePool::Settings{.page_bytes = kPageBytes,
                                                       .capacity_bytes = pages * kPageBytes,
                                                       .piece_bytes = piece_pages * kPageBytes});
}

// A table whose tokens are stamps that nobody else writes.
struct StampedTable {
  explicit StampedTable(const std::shared_ptr<PagePool>& pool)
      : reservation(std::make_shared<Reservation>(pool)), table(reservation, kPageTokens) {}

  static std::byte* token(const PageTable& table, int64_t index) {
    return table.data()[index / kPageTokens] + index % kPageTokens * kTokenBytes;
  }
  // False where there was no room.
  bool add(int64_t count, uint64_t& next_stamp) {
    if (!table.extend(count)) return false;
    for (int64_t i = 0; i < count; ++i) {
      stamps.push_back(next_stamp++);
      for (int64_t at = 0; at < kTokenBytes; at += 8)
        std::memcpy(token(table, static_cast<int64_t>(stamps.size()) - 1) + at, &stamps.back(), 8);
    }
    return true;
  }
  void truncate(int64_t tokens) {
    table.truncate(tokens);
    stamps.resize(static_cast<size_t>(tokens));
  }
  // Every token is what was written, and what nobody wrote is zero.
  void check() const {
    ASSERT_EQ(table.size(), static_cast<int64_t>(stamps.size()));
    for (int64_t i = 0; i < table.size(); ++i)
      for (int64_t at = 0; at < kTokenBytes; at += 8)
        ASSERT_EQ(std::memcmp(token(table, i) + at, &stamps[static_cast<size_t>(i)], 8), 0)
            << "token " << i;
  }

  std::shared_ptr<Reservation> reservation;
  PageTable table;
  std::vector<uint64_t> stamps;
};

}  // namespace fovea::test
