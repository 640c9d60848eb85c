// SPDX-License-Identifier: Apache-2.0
// Which pages hold the tokens of one sequence in one layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/page_pool.h"

namespace fovea {

// Grows at its end and can be cut back. A beginning can be shared with other tables; who writes to
// a page that another one holds too gets a copy of it first.
class PageTable {
 public:
  PageTable() = default;
  PageTable(std::shared_ptr<Reservation> from, int64_t page_tokens)
      : from_(std::move(from)), page_tokens_(page_tokens) {}
  ~PageTable();
  PageTable(PageTable&& other) noexcept { swap(other); }
  PageTable& operator=(PageTable&& other) noexcept;

  int64_t size() const { return size_; }  // tokens
  int64_t page_tokens() const { return page_tokens_; }
  int64_t capacity() const { return static_cast<int64_t>(pages_.size()) * page_tokens_; }
  std::span<const PageId> pages() const { return pages_; }
  std::byte* const* data() const { return data_.data(); }  // of each page
  int64_t bytes() const;

  // Takes pages for this many tokens in all, so that extend() to there finds all it needs. False
  // where there is no room: what is there stays.
  [[nodiscard]] bool reserve(int64_t tokens);
  // Adds `count` tokens, which the caller writes; their pages are this table's alone. False where
  // there is no room: all is as before.
  [[nodiscard]] bool extend(int64_t count);
  // Forgets all but the first `tokens`, and drops pages that hold none of them.
  void truncate(int64_t tokens);
  // Becomes the first `tokens` tokens that `pages` hold, in place of what it was. False where there
  // is no room to reserve; it is empty then.
  [[nodiscard]] bool share(std::span<const PageId> pages, int64_t tokens);
  // An empty one that draws on the same reservation.
  PageTable empty_like() const { return {from_, page_tokens_}; }

 private:
  [[nodiscard]] bool own_last_page();
  void swap(PageTable& other) noexcept;

  std::shared_ptr<Reservation> from_;
  int64_t page_tokens_ = 1;
  int64_t size_ = 0;
  std::vector<PageId> pages_;
  std::vector<std::byte*> data_;
};

}  // namespace fovea
