// SPDX-License-Identifier: Apache-2.0
// A canary in every page that is given back: no later owner may see it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "memory/page_pool.h"

namespace fovea::test {

// Watches a pool from before its first page is taken; it begins and ends while nothing uses the
// pool. Watching takes less memory at a time than what tests let fail (tests/low_memory).
class Canaries {
 public:
  explicit Canaries(std::shared_ptr<PagePool> pool)
      : pool_(std::move(pool)), page_bytes_(pool_->page_bytes()) {
    pool_->watch({.given_back = [this](std::span<std::byte> page) { put_in(page); },
                  .taken = [this](std::span<const std::byte> page) { look_at(page); }});
  }
  ~Canaries() { pool_->watch({}); }
  Canaries(const Canaries&) = delete;
  Canaries& operator=(const Canaries&) = delete;

  // While nobody writes to pages: whoever took one found zeros alone, and what is held holds none
  // of what was given back. `resident` bytes of pages are held, no more and no less.
  void expect_unseen(int64_t resident) const {
    EXPECT_GT(given_back_, 0) << "no page was given back";
    EXPECT_EQ(unclean_, 0) << "pages were taken that held what others had left";
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(static_cast<int64_t>(held_.size()) * page_bytes_, resident);
    for (const std::byte* page : held_) {
      int64_t words = 0;
      for (int64_t at = 0; at < page_bytes_; at += kWordBytes) {
        uint64_t word = 0;
        std::memcpy(&word, page + at, kWordBytes);
        words += word == kCanary ? 1 : 0;
      }
      EXPECT_EQ(words, 0) << "canaries in a page that is held";
    }
  }

 private:
  static constexpr int64_t kWordBytes = 8;
  // As floats, numbers that no model computes: 1.1e38 twice.
  static constexpr uint64_t kCanary = 0x7ea5'ca9a'7ea5'ca9a;

  void put_in(std::span<std::byte> page) {
    for (size_t at = 0; at < page.size(); at += kWordBytes)
      std::memcpy(page.data() + at, &kCanary, kWordBytes);
    ++given_back_;
    const std::lock_guard lock(mutex_);
    held_.erase(page.data());
  }
  void look_at(std::span<const std::byte> page) {
    if (!std::all_of(page.begin(), page.end(), [](std::byte b) { return b == std::byte{0}; }))
      ++unclean_;
    const std::lock_guard lock(mutex_);
    held_.insert(page.data());
  }

  const std::shared_ptr<PagePool> pool_;
  const int64_t page_bytes_;
  std::atomic<int64_t> given_back_ = 0;
  std::atomic<int64_t> unclean_ = 0;
  mutable std::mutex mutex_;
  std::set<const std::byte*> held_;  // guarded by the mutex
};

}  // namespace fovea::test
