// SPDX-License-Identifier: Apache-2.0
#include "memory/page_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace fovea {

PageTable::~PageTable() {
  if (from_) from_->drop(pages_);
}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  PageTable(std::move(other)).swap(*this);
  return *this;
}

void PageTable::swap(PageTable& other) noexcept {
  std::swap(from_, other.from_);
  std::swap(page_tokens_, other.page_tokens_);
  std::swap(size_, other.size_);
  std::swap(pages_, other.pages_);
  std::swap(data_, other.data_);
}

int64_t PageTable::bytes() const {
  return from_ ? static_cast<int64_t>(pages_.size()) * from_->pool()->page_bytes() : 0;
}

bool PageTable::reserve(int64_t tokens) {
  if (tokens > size_ && !own_last_page()) return false;
  const auto needed = static_cast<size_t>((tokens + page_tokens_ - 1) / page_tokens_);
  if (needed <= pages_.size()) return true;
  const size_t before = pages_.size();
  pages_.reserve(needed);  // before there is a page that could be lost
  data_.reserve(needed);
  while (pages_.size() < needed) {
    const PageId page = from_->take();
    if (page == kNoPage) {
      from_->drop(std::span(pages_).subspan(before));
      pages_.resize(before);
      data_.resize(before);
      return false;
    }
    pages_.push_back(page);
    data_.push_back(from_->pool()->data(page));
  }
  return true;
}

bool PageTable::own_last_page() {
  if (size_ % page_tokens_ == 0) return true;
  const auto last = static_cast<size_t>(size_ / page_tokens_);
  PagePool& pool = *from_->pool();
  if (!pool.is_shared(pages_[last])) return true;
  const PageId own = from_->take();
  if (own == kNoPage) return false;
  std::byte* data = pool.data(own);
  std::memcpy(data, data_[last], static_cast<size_t>(pool.page_bytes()));
  from_->drop({&pages_[last], 1});
  pages_[last] = own;
  data_[last] = data;
  return true;
}

bool PageTable::extend(int64_t count) {
  FOVEA_CHECK(count >= 0);
  if (count == 0) return true;
  if (!reserve(size_ + count)) return false;
  size_ += count;
  return true;
}

void PageTable::truncate(int64_t tokens) {
  FOVEA_CHECK(tokens >= 0 && tokens <= size_);
  size_ = tokens;
  const auto kept = static_cast<size_t>((tokens + page_tokens_ - 1) / page_tokens_);
  if (kept >= pages_.size()) return;
  from_->drop(std::span(pages_).subspan(kept));
  pages_.resize(kept);
  data_.resize(kept);
}

bool PageTable::share(std::span<const PageId> pages, int64_t tokens) {
  const auto needed = static_cast<size_t>((tokens + page_tokens_ - 1) / page_tokens_);
  FOVEA_CHECK(tokens >= 0 && needed <= pages.size());
  truncate(0);
  pages = pages.first(needed);
  pages_.reserve(needed);
  data_.reserve(needed);
  if (!from_->hold(pages)) return false;
  pages_.assign(pages.begin(), pages.end());
  for (const PageId page : pages) data_.push_back(from_->pool()->data(page));
  size_ = tokens;
  return true;
}

}  // namespace fovea
