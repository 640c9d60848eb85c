// SPDX-License-Identifier: Apache-2.0
// The memory of all keys and values: pages of one size, up to a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "fovea/memory_usage.h"
#include "fovea/result.h"

namespace fovea {

using PageId = int32_t;
inline constexpr PageId kNoPage = -1;

class Reservation;

// Pages of `page_bytes` bytes, at most `capacity_bytes` of them in all. Memory comes from the
// system in large pieces when it is first promised or taken, and goes back when a whole piece is
// free and no promise needs it. A free page is all zeros, so that no owner sees another's bytes.
//
// Who holds a page is counted apart for owners (tables of sequences) and for the prefix index. All
// pages that owners hold lie within their reservations, whose sum is at most the capacity: so
// whoever has reserved pages gets them, since the rest is free or can be evicted.
//
// Any thread may call anything at any time.
class PagePool {
 public:
  struct Settings {
    int64_t page_bytes = 0;  // a multiple of 64
    int64_t capacity_bytes = 0;
    int64_t piece_bytes = int64_t{16} << 20;  // about as much is taken from the system at a time
    // For tests: gives zeros, or null where there is no memory.
    std::function<void*(size_t bytes)> map;
    std::function<void(void* memory, size_t bytes)> unmap;
  };

  explicit PagePool(Settings settings);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  int64_t page_bytes() const { return settings_.page_bytes; }
  int64_t capacity_pages() const { return capacity_; }
  MemoryUsage usage() const;

  // What makes room when no page is free: false where there is nothing left to evict. Called
  // without the pool's lock.
  void on_full(std::function<bool()> evict);
  void count_hit();
  void count_eviction();

  // For tests, before any page is taken: sees each page that nobody holds any more before it is
  // cleared, and may write to it; and each page that an owner takes, before the owner has it.
  struct Watch {
    std::function<void(std::span<std::byte> page)> given_back;
    std::function<void(std::span<const std::byte> page)> taken;  // must not call the pool
  };
  void watch(Watch watch) { watch_ = std::move(watch); }

  std::byte* data(PageId page) const;
  bool is_shared(PageId page) const;  // held more than once

  // Of the prefix index, which reserves nothing: its pages may go whenever no owner holds them.
  void hold_cached(std::span<const PageId> pages);
  void drop_cached(std::span<const PageId> pages);
  bool any_idle(std::span<const PageId> pages) const;  // whether no owner holds one of them

 private:
  friend class Reservation;
  struct Page {
    int32_t owners = 0;
    int32_t cached = 0;
    bool free() const { return owners == 0 && cached == 0; }
  };

  int64_t pages_of_piece(size_t piece) const;
  // With the lock held:
  std::span<std::byte> bytes_of(PageId page) const;
  PageId find_free();
  bool map_piece();
  bool map_at_least(int64_t pages);
  void unmap_spare_pieces();
  // Without it: counts down; a page that nobody holds any more is cleared, then free.
  void drop(std::span<const PageId> pages, int32_t Page::*count);

  const Settings settings_;
  Watch watch_;
  int64_t capacity_ = 0;            // pages
  int64_t piece_pages_ = 0;         // of every piece but the last
  mutable std::mutex mutex_;        // guards all that follows
  std::vector<std::byte*> pieces_;  // null: not taken from the system
  std::vector<Page> pages_;
  std::vector<bool> ready_;  // mapped, free and cleared
  int64_t ready_count_ = 0;
  PageId first_ready_ = 0;  // none below it is ready
  int64_t mapped_ = 0;      // pages
  int64_t promised_ = 0;    // pages
  int64_t hits_ = 0;
  int64_t evictions_ = 0;
  std::function<bool()> evict_;
};

// What a request may hold at most. Every page that one of its tables holds counts, shared or not:
// so it can write to all of them, whoever else lets go.
class Reservation {
 public:
  explicit Reservation(std::shared_ptr<PagePool> pool) : pool_(std::move(pool)) {}
  ~Reservation();  // all pages were dropped before
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  const std::shared_ptr<PagePool>& pool() const { return pool_; }
  int64_t pages() const;
  int64_t held() const;

  // To that many pages, or as many as are held where that is more. An error names what is missing
  // and what is there, and changes nothing.
  Status resize(int64_t pages);
  // A page of zeros. Beyond what was reserved it is reserved first; kNoPage where that fails.
  PageId take();
  // One more holder of pages that someone holds; false where there is no room to reserve.
  bool hold(std::span<const PageId> pages);
  void drop(std::span<const PageId> pages);

 private:
  bool grow(int64_t pages);  // with the pool's lock held

  std::shared_ptr<PagePool> pool_;
  int64_t promised_ = 0;  // guarded by the pool's lock
  int64_t held_ = 0;      // likewise
};

}  // namespace fovea
