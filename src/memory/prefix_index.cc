// SPDX-License-Identifier: Apache-2.0
#include "memory/prefix_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace fovea {

PrefixIndex::PrefixIndex(std::shared_ptr<PagePool> pool, int64_t most_cached_bytes)
    : pool_(std::move(pool)), most_cached_bytes_(most_cached_bytes) {
  pool_->on_full([this] { return evict(); });
}

PrefixIndex::~PrefixIndex() {
  pool_->on_full(nullptr);
  for (const auto& [key, entry] : entries_) drop(entry);
}

void PrefixIndex::drop(const Entry& entry) {
  for (const std::vector<PageId>& pages : entry.layers) pool_->drop_cached(pages);
}

void PrefixIndex::touch(Entry& entry) { uses_.splice(uses_.end(), uses_, entry.use); }

bool PrefixIndex::evict_one() {
  for (const Key* key : uses_) {
    const auto found = entries_.find(*key);
    const auto& layers = found->second.layers;
    const bool idle = std::any_of(layers.begin(), layers.end(),
                                  [this](const auto& pages) { return pool_->any_idle(pages); });
    if (!idle) continue;
    drop(found->second);
    uses_.erase(found->second.use);
    entries_.erase(found);
    pool_->count_eviction();
    return true;
  }
  return false;
}

bool PrefixIndex::evict() {
  const std::lock_guard lock(mutex_);
  return evict_one();
}

int64_t PrefixIndex::entries() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

// In the order of keys, those that begin like `key` the furthest stand right before and after it.
std::pair<PrefixIndex::Entries::iterator, int64_t> PrefixIndex::longest(const Key& key) {
  std::pair best{entries_.end(), int64_t{0}};
  const auto consider = [&](Entries::iterator entry) {
    const Key& other = entry->first;
    const auto differs = std::mismatch(key.begin(), key.end(), other.begin(), other.end());
    const int64_t common = differs.first - key.begin();
    if (common > best.second) best = {entry, common};
  };
  const auto after = entries_.lower_bound(key);
  if (after != entries_.end()) consider(after);
  if (after != entries_.begin()) consider(std::prev(after));
  return best;
}

void PrefixIndex::insert(std::span<const Digest> key, std::span<const PageTable* const> layers,
                         std::shared_ptr<const void> extra) {
  if (key.empty()) return;
  const auto tokens = static_cast<int64_t>(key.size());
  Entry entry;
  entry.extra = std::move(extra);
  for (const PageTable* layer : layers) {
    FOVEA_CHECK(tokens <= layer->size());
    const int64_t pages = (tokens + layer->page_tokens() - 1) / layer->page_tokens();
    const auto held = layer->pages().first(static_cast<size_t>(pages));
    entry.layers.emplace_back(held.begin(), held.end());
  }
  std::list<const Key*> use(1);
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = entries_.try_emplace(Key(key.begin(), key.end()));
  if (!is_new) return touch(place->second);
  // From here on nothing is allocated: an entry is whole, or it is not there.
  use.front() = &place->first;
  entry.use = use.begin();
  uses_.splice(uses_.end(), use);
  place->second = std::move(entry);
  for (const std::vector<PageId>& pages : place->second.layers) pool_->hold_cached(pages);
  while (pool_->usage().cached > most_cached_bytes_ && evict_one()) {
  }
}

PrefixIndex::Found PrefixIndex::find(std::span<const Digest> key, std::span<const int64_t> ends,
                                     int64_t more_than, std::span<PageTable* const> layers) {
  const std::lock_guard lock(mutex_);
  const auto [entry, common] = longest(Key(key.begin(), key.end()));
  const auto past = std::upper_bound(ends.begin(), ends.end(), common);
  const int64_t tokens = past == ends.begin() ? 0 : *std::prev(past);
  if (tokens <= more_than) return {};
  const auto& known = entry->second.layers;
  FOVEA_CHECK(known.size() == layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i]->share(known[i], tokens)) continue;
    for (PageTable* layer : layers) layer->truncate(0);
    return {};
  }
  touch(entry->second);
  pool_->count_hit();
  return {tokens, entry->second.extra};
}

}  // namespace fovea
