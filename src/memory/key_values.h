// SPDX-License-Identifier: Apache-2.0
// The keys and values of one attention layer, kept in pages so that later queries attend to them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads.h"
#include "memory/forget/kept_rows.h"
#include "memory/page_pool.h"
#include "memory/page_table.h"
#include "ops/paged_keys.h"

namespace fovea {

// Tokens of a page, for the heads that it is made for. Fewer cost attention more changes of page
// and a longer table; more leave more of the last page empty, in every layer (docs/memory.md).
inline constexpr int kPageTokens = 64;

// Bytes of a page of kPageTokens tokens in f32, and how many tokens a page of another size holds.
int64_t page_bytes_for(int kv_heads, int head_dim);
int tokens_of_page(int64_t page_bytes, int kv_heads, int head_dim,
                   KeyFormat format = KeyFormat::kF32);
// Pages that hold so many tokens of one layer.
int64_t pages_for(int64_t tokens, int64_t page_bytes, int kv_heads, int head_dim,
                  KeyFormat format = KeyFormat::kF32);

// What a memory draws on that belongs to no model: a pool of its own, without a bound.
std::shared_ptr<Reservation> unbounded_pages(int kv_heads, int head_dim);

class KeyValues;
// The tables of the layers of a memory, in their order.
std::vector<PageTable*> tables_of(std::vector<KeyValues>& layers);
std::vector<const PageTable*> tables_of(const std::vector<KeyValues>& layers);

// Grows at its end, and can be cut back: a cached beginning stays valid while what follows it
// changes. Where the reservation has no room, std::bad_alloc is thrown and nothing is changed:
// whoever reserved enough does not meet it.
class KeyValues {
 public:
  KeyValues(std::shared_ptr<Reservation> from, int kv_heads, int head_dim,
            KeyFormat format = KeyFormat::kF32);

  int kv_heads() const { return kv_heads_; }
  int head_dim() const { return head_dim_; }
  KeyFormat format() const { return format_; }
  int64_t size() const { return table_.size(); }          // keys
  int64_t capacity() const { return table_.capacity(); }  // keys there are pages for
  size_t bytes() const { return static_cast<size_t>(table_.bytes()); }

  // Takes pages for this many keys in all.
  void reserve(int64_t keys);
  // Adds `count` keys and values: [count][kv_heads * head_dim], rows so many values apart.
  void append(const float* keys, int64_t key_stride, const float* values, int64_t value_stride,
              int64_t count);
  // The same by several threads, which pays for some hundred keys and more.
  void append(Threads& threads, const float* keys, int64_t key_stride, const float* values,
              int64_t value_stride, int64_t count);
  // Forgets all but the first `keys`; pages without a key go back.
  void truncate(int64_t keys);
  // The keys from `first` on that `kept` tells of become the rows that it says; those before and
  // behind stay. They move to pages of their own, so that whoever shares the old ones keeps them;
  // until that is done both are held.
  void keep(int64_t first, const KeptRows& kept);

  // [size()]: the logarithm of how many keys a row stands for, which attention adds to its scores;
  // null where each is one.
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }

  PageTable& table() { return table_; }
  const PageTable& table() const { return table_; }
  // As attention reads them, until the next change.
  PagedKeys view() const;
  // Of f32 alone.
  const float* key(int head, int64_t index) const { return view().key(head, index); }
  const float* value(int head, int64_t index) const { return view().value(head, index); }

 private:
  struct Rows;
  // Rows [begin, end) of what is added, of one head.
  void copy_in(const Rows& rows, int head, int64_t begin, int64_t end);
  PagedKeys view_of(const PageTable& table) const;
  // Row `row` of one table becomes what key `key` of the other one is.
  void copy_row(const PagedKeys& from, const PagedKeys& to, int head, int64_t key,
                int64_t row) const;
  float size_of(int64_t key) const;  // how many keys it stands for
  // Room for the bias of `count` more, and that of those which there are now.
  void reserve_bias(int64_t count);
  void extend_bias();

  int kv_heads_ = 0;
  int head_dim_ = 0;
  KeyFormat format_ = KeyFormat::kF32;
  PageTable table_;
  std::vector<float> bias_;  // empty, or [size()]
};

}  // namespace fovea
