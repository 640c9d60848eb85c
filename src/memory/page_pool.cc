// SPDX-License-Identifier: Apache-2.0
#include "memory/page_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "base/text.h"

namespace fovea {
namespace {

constexpr int64_t kAlignment = 64;  // of a page: a line of the cache

// At a border of the system's large pages, so that they can back all of a piece: what is mapped
// before and after it goes back at once.
void* map_memory(size_t bytes) {
  constexpr size_t kBorder = size_t{2} << 20;
  void* mapped =
      mmap(nullptr, bytes + kBorder, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;  // NOLINT: the system's own macro
  void* memory = mapped;
  size_t space = bytes + kBorder;
  std::align(kBorder, bytes, memory, space);
  const auto before = static_cast<size_t>(static_cast<char*>(memory) - static_cast<char*>(mapped));
  constexpr size_t kSystemPage = 4096;
  const size_t used = (bytes + kSystemPage - 1) / kSystemPage * kSystemPage;
  if (before > 0) munmap(mapped, before);
  if (before + used < bytes + kBorder)
    munmap(static_cast<char*>(memory) + used, bytes + kBorder - before - used);
  prefer_large_pages(memory, bytes);
  return memory;
}

void unmap_memory(void* memory, size_t bytes) { munmap(memory, bytes); }

PagePool::Settings with_system(PagePool::Settings settings) {
  if (!settings.map) {
    settings.map = map_memory;
    settings.unmap = unmap_memory;
  }
  return settings;
}

}  // namespace

PagePool::PagePool(Settings settings) : settings_(with_system(std::move(settings))) {
  FOVEA_CHECK(settings_.page_bytes > 0 && settings_.page_bytes % kAlignment == 0);
  FOVEA_CHECK(settings_.capacity_bytes >= 0);
  capacity_ = std::min<int64_t>(settings_.capacity_bytes / settings_.page_bytes,
                                std::numeric_limits<PageId>::max());
  piece_pages_ = std::max<int64_t>(1, settings_.piece_bytes / settings_.page_bytes);
}

PagePool::~PagePool() {
  FOVEA_CHECK(promised_ == 0);
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (pieces_[i] != nullptr)
      settings_.unmap(pieces_[i], static_cast<size_t>(pages_of_piece(i) * page_bytes()));
}

int64_t PagePool::pages_of_piece(size_t piece) const {
  return std::min(piece_pages_, capacity_ - static_cast<int64_t>(piece) * piece_pages_);
}

std::span<std::byte> PagePool::bytes_of(PageId page) const {
  std::byte* const piece = pieces_[static_cast<size_t>(page / piece_pages_)];
  return {piece + page % piece_pages_ * page_bytes(), static_cast<size_t>(page_bytes())};
}

std::byte* PagePool::data(PageId page) const {
  const std::lock_guard lock(mutex_);
  return bytes_of(page).data();
}

bool PagePool::is_shared(PageId page) const {
  const std::lock_guard lock(mutex_);
  const Page& counts = pages_[static_cast<size_t>(page)];
  return counts.owners + counts.cached > 1;
}

bool PagePool::any_idle(std::span<const PageId> pages) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(pages.begin(), pages.end(),
                     [this](PageId page) { return pages_[static_cast<size_t>(page)].owners == 0; });
}

void PagePool::on_full(std::function<bool()> evict) {
  const std::lock_guard lock(mutex_);
  evict_ = std::move(evict);
}

void PagePool::count_hit() {
  const std::lock_guard lock(mutex_);
  ++hits_;
}

void PagePool::count_eviction() {
  const std::lock_guard lock(mutex_);
  ++evictions_;
}

bool PagePool::map_piece() {
  size_t piece = 0;
  while (piece < pieces_.size() && pieces_[piece] != nullptr) ++piece;
  const int64_t first = static_cast<int64_t>(piece) * piece_pages_;
  if (first >= capacity_) return false;
  const int64_t count = pages_of_piece(piece);
  if (piece == pieces_.size()) {  // before there is memory that could be lost
    pages_.resize(static_cast<size_t>(first + count));
    ready_.resize(static_cast<size_t>(first + count));
    pieces_.push_back(nullptr);
  }
  void* memory = settings_.map(static_cast<size_t>(count * page_bytes()));
  if (memory == nullptr) return false;
  pieces_[piece] = static_cast<std::byte*>(memory);
  std::fill_n(ready_.begin() + first, count, true);
  ready_count_ += count;
  mapped_ += count;
  first_ready_ = std::min(first_ready_, static_cast<PageId>(first));
  return true;
}

bool PagePool::map_at_least(int64_t pages) {
  while (mapped_ < pages)
    if (!map_piece()) return false;
  return true;
}

// All free pieces but the first go back to the system, as far as no promise needs them. The one
// that stays spares the next request a call to the system.
void PagePool::unmap_spare_pieces() {
  if (ready_count_ < 2 * piece_pages_) return;
  bool spare = false;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i] == nullptr) continue;
    const auto first = static_cast<ptrdiff_t>(i) * piece_pages_;
    const int64_t count = pages_of_piece(i);
    const auto begin = ready_.begin() + first;
    if (std::find(begin, begin + count, false) != begin + count) continue;
    if (!std::exchange(spare, true)) continue;
    if (mapped_ - count < promised_) return;
    settings_.unmap(pieces_[i], static_cast<size_t>(count * page_bytes()));
    pieces_[i] = nullptr;
    std::fill_n(begin, count, false);
    ready_count_ -= count;
    mapped_ -= count;
  }
}

// The lowest one: pages that are held lie together, and runs of free ones stay long.
PageId PagePool::find_free() {
  if (ready_count_ == 0 && !map_piece()) return kNoPage;
  const auto found = std::find(ready_.begin() + first_ready_, ready_.end(), true);
  FOVEA_CHECK(found != ready_.end());
  *found = false;
  --ready_count_;
  first_ready_ = static_cast<PageId>(found - ready_.begin());
  return first_ready_++;
}

void PagePool::hold_cached(std::span<const PageId> pages) {
  const std::lock_guard lock(mutex_);
  for (const PageId page : pages) {
    FOVEA_CHECK(!pages_[static_cast<size_t>(page)].free());
    ++pages_[static_cast<size_t>(page)].cached;
  }
}

void PagePool::drop_cached(std::span<const PageId> pages) { drop(pages, &Page::cached); }

// Nothing is allocated here, since destructors call it. A page is cleared without the lock: nobody
// knows it until it is ready.
void PagePool::drop(std::span<const PageId> pages, int32_t Page::*count) {
  for (const PageId page : pages) {
    const auto index = static_cast<size_t>(page);
    std::span<std::byte> bytes;
    {
      const std::lock_guard lock(mutex_);
      Page& counts = pages_[index];
      FOVEA_CHECK(counts.*count > 0);
      --(counts.*count);
      if (!counts.free()) continue;
      bytes = bytes_of(page);
    }
    if (watch_.given_back) watch_.given_back(bytes);
    std::memset(bytes.data(), 0, bytes.size());
    const std::lock_guard lock(mutex_);
    ready_[index] = true;
    ++ready_count_;
    first_ready_ = std::min(first_ready_, page);
  }
  const std::lock_guard lock(mutex_);
  unmap_spare_pieces();
}

MemoryUsage PagePool::usage() const {
  const std::lock_guard lock(mutex_);
  int64_t resident = 0;
  int64_t shared = 0;
  int64_t cached = 0;
  int64_t run = 0;
  int64_t longest = 0;
  for (const Page& page : pages_) {
    run = page.free() ? run + 1 : 0;
    longest = std::max(longest, run);
    if (page.free()) continue;
    ++resident;
    if (page.owners + page.cached > 1) ++shared;
    if (page.owners == 0) ++cached;
  }
  // What was never taken from the system follows the last page that was.
  longest = std::max(longest, run + capacity_ - static_cast<int64_t>(pages_.size()));
  return {.capacity = capacity_ * page_bytes(),
          .resident = resident * page_bytes(),
          .shared = shared * page_bytes(),
          .cached = cached * page_bytes(),
          .reserved = promised_ * page_bytes(),
          .free = (capacity_ - resident) * page_bytes(),
          .largest_free_run = longest * page_bytes(),
          .mapped = mapped_ * page_bytes(),
          .hits = hits_,
          .evictions = evictions_};
}

Reservation::~Reservation() {
  const std::lock_guard lock(pool_->mutex_);
  FOVEA_CHECK(held_ == 0);
  pool_->promised_ -= promised_;
}

int64_t Reservation::pages() const {
  const std::lock_guard lock(pool_->mutex_);
  return promised_;
}

int64_t Reservation::held() const {
  const std::lock_guard lock(pool_->mutex_);
  return held_;
}

bool Reservation::grow(int64_t pages) {
  const int64_t more = pages - promised_;
  if (more <= 0) return true;
  if (more > pool_->capacity_ - pool_->promised_) return false;
  if (!pool_->map_at_least(pool_->promised_ + more)) return false;
  promised_ += more;
  pool_->promised_ += more;
  return true;
}

Status Reservation::resize(int64_t pages) {
  const std::lock_guard lock(pool_->mutex_);
  pages = std::max(pages, held_);
  if (pages <= promised_) {
    pool_->promised_ -= promised_ - pages;
    promised_ = pages;
    return Done{};
  }
  if (grow(pages)) return Done{};
  const int64_t unpromised = pool_->capacity_ - pool_->promised_;
  const int64_t more = pages - promised_;
  const int64_t bytes = pool_->page_bytes();
  // A need that overflows is far beyond every capacity.
  const int64_t need = more > std::numeric_limits<int64_t>::max() / bytes
                           ? std::numeric_limits<int64_t>::max()
                           : more * bytes;
  if (more <= unpromised)
    return failed(
        fmt::format("keys and values need {} more of memory, but the system gives no "
                    "more than {} in all",
                    human_bytes(need), human_bytes(pool_->mapped_ * bytes)));
  return failed(fmt::format("keys and values need {} more of memory, but {} of {} are left",
                            human_bytes(need), human_bytes(unpromised * bytes),
                            human_bytes(pool_->capacity_ * bytes)));
}

PageId Reservation::take() {
  for (bool evicted = true;;) {
    std::function<bool()> evict;
    {
      const std::lock_guard lock(pool_->mutex_);
      if (held_ == promised_ && !grow(held_ + 1)) return kNoPage;
      const PageId page = pool_->find_free();
      if (page != kNoPage) {
        if (pool_->watch_.taken) pool_->watch_.taken(pool_->bytes_of(page));
        pool_->pages_[static_cast<size_t>(page)].owners = 1;
        ++held_;
        return page;
      }
      evict = pool_->evict_;
    }
    // Once more after nothing was left to evict: another thread may have done so meanwhile.
    if (!evicted) return kNoPage;
    evicted = evict && evict();
  }
}

bool Reservation::hold(std::span<const PageId> pages) {
  const std::lock_guard lock(pool_->mutex_);
  if (!grow(held_ + static_cast<int64_t>(pages.size()))) return false;
  for (const PageId page : pages) {
    FOVEA_CHECK(!pool_->pages_[static_cast<size_t>(page)].free());
    ++pool_->pages_[static_cast<size_t>(page)].owners;
  }
  held_ += static_cast<int64_t>(pages.size());
  return true;
}

void Reservation::drop(std::span<const PageId> pages) {
  if (pages.empty()) return;
  pool_->drop(pages, &PagePool::Page::owners);
  const std::lock_guard lock(pool_->mutex_);
  held_ -= static_cast<int64_t>(pages.size());
}

}  // namespace fovea
