// SPDX-License-Identifier: Apache-2.0
// Beginnings of sequences whose keys and values are there already, found by their content.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "memory/digest.h"
#include "memory/page_pool.h"
#include "memory/page_table.h"

namespace fovea {

// An entry is a beginning: a digest for each of its tokens, the pages of each layer, and what else
// was made of it. A digest names all that a token's keys and values depend on besides the tokens
// before it: model, salt, token id, position, pixels and cells. Entries share pages among each
// other and with tables.
//
// The entry that was used longest ago goes first when the pool has no free page, or when pages that
// entries alone hold would be more than `most_cached_bytes`; one whose pages are all in use by
// sequences stays. Any thread may call anything at any time.
class PrefixIndex {
 public:
  PrefixIndex(std::shared_ptr<PagePool> pool, int64_t most_cached_bytes);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Remembers the first key.size() tokens of the tables, one a layer. `extra` is the caller's: what
  // find() gives back with them. Known already: used just now.
  void insert(std::span<const Digest> key, std::span<const PageTable* const> layers,
              std::shared_ptr<const void> extra);

  struct Found {
    int64_t tokens = 0;  // 0: nothing
    std::shared_ptr<const void> extra;
  };
  // The longest known beginning of `key` that ends at one of `ends` (ascending), and is longer than
  // `more_than`: the tables share its pages. Where there is no room to reserve it is not found, and
  // the tables are empty.
  Found find(std::span<const Digest> key, std::span<const int64_t> ends, int64_t more_than,
             std::span<PageTable* const> layers);

  // Drops the entry that was used longest ago of those with a page that no sequence uses. False
  // where there is none.
  bool evict();
  int64_t entries() const;

 private:
  using Key = std::vector<Digest>;
  struct Entry {
    std::vector<std::vector<PageId>> layers;
    std::shared_ptr<const void> extra;
    std::list<const Key*>::iterator use;  // its place in uses_
  };
  using Entries = std::map<Key, Entry>;

  // With the lock held:
  bool evict_one();
  void drop(const Entry& entry);
  void touch(Entry& entry);
  // The entry with the longest common beginning, and its length.
  std::pair<Entries::iterator, int64_t> longest(const Key& key);

  const std::shared_ptr<PagePool> pool_;
  const int64_t most_cached_bytes_;
  mutable std::mutex mutex_;    // taken before the pool's; guards all that follows
  Entries entries_;             // in the order of their keys: neighbours begin alike
  std::list<const Key*> uses_;  // the latest last
};

}  // namespace fovea
