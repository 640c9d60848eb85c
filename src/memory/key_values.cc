// SPDX-License-Identifier: Apache-2.0
#include "memory/key_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

constexpr int64_t kChunkKeys = 512;
constexpr int64_t kLine = 64;  // bytes; pages are whole lines

int64_t token_bytes(int kv_heads, int head_dim) {
  return page_values(kv_heads, head_dim, 1) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

int64_t page_bytes_for(int kv_heads, int head_dim) {
  return (kPageTokens * token_bytes(kv_heads, head_dim) + kLine - 1) / kLine * kLine;
}

int tokens_of_page(int64_t page_bytes, int kv_heads, int head_dim) {
  const int64_t tokens = page_bytes / token_bytes(kv_heads, head_dim);
  return static_cast<int>(tokens / PagedKeys::kPageStep * PagedKeys::kPageStep);
}

int64_t pages_for(int64_t tokens, int64_t page_bytes, int kv_heads, int head_dim) {
  const int64_t page_tokens = tokens_of_page(page_bytes, kv_heads, head_dim);
  return (tokens + page_tokens - 1) / page_tokens;
}

std::shared_ptr<Reservation> unbounded_pages(int kv_heads, int head_dim) {
  return std::make_shared<Reservation>(std::make_shared<PagePool>(
      PagePool::Settings{.page_bytes = page_bytes_for(kv_heads, head_dim),
                         .capacity_bytes = std::numeric_limits<int64_t>::max()}));
}

std::vector<PageTable*> tables_of(std::vector<KeyValues>& layers) {
  std::vector<PageTable*> tables;
  tables.reserve(layers.size());
  for (KeyValues& layer : layers) tables.push_back(&layer.table());
  return tables;
}

std::vector<const PageTable*> tables_of(const std::vector<KeyValues>& layers) {
  std::vector<const PageTable*> tables;
  tables.reserve(layers.size());
  for (const KeyValues& layer : layers) tables.push_back(&layer.table());
  return tables;
}

struct KeyValues::Rows {
  const float* keys = nullptr;
  int64_t key_stride = 0;
  const float* values = nullptr;
  int64_t value_stride = 0;
  int64_t first = 0;  // the key that the first of them becomes
};

KeyValues::KeyValues(std::shared_ptr<Reservation> from, int kv_heads, int head_dim)
    : kv_heads_(kv_heads), head_dim_(head_dim) {
  const int page_tokens = tokens_of_page(from->pool()->page_bytes(), kv_heads, head_dim);
  FOVEA_CHECK(page_tokens > 0);
  table_ = PageTable(std::move(from), page_tokens);
}

PagedKeys KeyValues::view() const { return view_of(table_); }

PagedKeys KeyValues::view_of(const PageTable& table) const {
  // A pointer is a pointer, and what the pages hold was written as floats.
  return {.pages = reinterpret_cast<const float* const*>(table.data()),
          .size = table.size(),
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .page_tokens = static_cast<int>(table.page_tokens())};
}

float KeyValues::size_of(int64_t key) const {
  return bias_.empty() ? 1 : std::exp(bias_[static_cast<size_t>(key)]);
}

void KeyValues::reserve(int64_t keys) {
  if (!table_.reserve(keys)) throw std::bad_alloc();
}

void KeyValues::reserve_bias(int64_t count) {
  const auto needed = static_cast<size_t>(size() + count);
  if (!bias_.empty() && bias_.capacity() < needed)
    bias_.reserve(std::max(needed, 2 * bias_.size()));
}

void KeyValues::extend_bias() {
  if (!bias_.empty()) bias_.resize(static_cast<size_t>(size()), 0.0f);
}

void KeyValues::truncate(int64_t keys) {
  table_.truncate(keys);
  if (bias_.size() > static_cast<size_t>(keys)) bias_.resize(static_cast<size_t>(keys));
}

void KeyValues::keep(int64_t first, const KeptRows& kept) {
  const int64_t behind = first + static_cast<int64_t>(kept.row_of.size());
  FOVEA_CHECK(first >= 0 && behind <= size());
  const int64_t rows = size() - static_cast<int64_t>(kept.row_of.size()) + kept.rows;
  // Where each key goes, and how many of them a row is made of.
  const auto row_of = [&](int64_t key) -> int64_t {
    if (key < first) return key;
    if (key >= behind) return key - behind + first + kept.rows;
    const int32_t row = kept.row_of[static_cast<size_t>(key - first)];
    return row == KeptRows::kForgotten ? -1 : first + row;
  };
  std::vector<float> sizes(static_cast<size_t>(rows));
  for (int64_t key = 0; key < size(); ++key)
    if (const int64_t row = row_of(key); row >= 0) sizes[static_cast<size_t>(row)] += size_of(key);

  PageTable moved = table_.empty_like();
  if (!moved.extend(rows)) throw std::bad_alloc();
  const PagedKeys from = view();
  const PagedKeys to = view_of(moved);
  for (int64_t key = 0; key < from.size; ++key) {
    const int64_t row = row_of(key);
    if (row < 0) continue;
    // Pages begin as zeros.
    const float part = size_of(key) / sizes[static_cast<size_t>(row)];
    for (int head = 0; head < kv_heads_; ++head) {
      // The pages are the new table's own.
      auto* to_key = const_cast<float*>(to.key(head, row));
      auto* to_value = to_key + to.value_after_key();
      for (int d = 0; d < head_dim_; ++d) to_key[d] += part * from.key(head, key)[d];
      for (int d = 0; d < head_dim_; ++d) to_value[d] += part * from.value(head, key)[d];
    }
  }
  const bool biased = std::any_of(sizes.begin(), sizes.end(), [](float size) { return size != 1; });
  std::vector<float> bias(biased ? static_cast<size_t>(rows) : 0);
  for (size_t row = 0; row < bias.size(); ++row) bias[row] = std::log(sizes[row]);
  table_ = std::move(moved);
  bias_ = std::move(bias);
}

void KeyValues::copy_in(const Rows& rows, int head, int64_t begin, int64_t end) {
  const PagedKeys all = view();
  const size_t head_bytes = static_cast<size_t>(head_dim_) * sizeof(float);
  const int64_t from = int64_t{head} * head_dim_;
  while (begin < end) {
    const int64_t run = std::min(end - begin, all.run(rows.first + begin));
    // The pages are this table's own, and only attention sees them as constant.
    auto* key = const_cast<float*>(all.key(head, rows.first + begin));
    auto* value = const_cast<float*>(all.value(head, rows.first + begin));
    for (int64_t i = 0; i < run; ++i)
      std::memcpy(key + i * head_dim_, rows.keys + (begin + i) * rows.key_stride + from,
                  head_bytes);
    for (int64_t i = 0; i < run; ++i)
      std::memcpy(value + i * head_dim_, rows.values + (begin + i) * rows.value_stride + from,
                  head_bytes);
    begin += run;
  }
}

void KeyValues::append(const float* keys, int64_t key_stride, const float* values,
                       int64_t value_stride, int64_t count) {
  const Rows rows{keys, key_stride, values, value_stride, size()};
  reserve_bias(count);
  if (!table_.extend(count)) throw std::bad_alloc();
  extend_bias();
  for (int head = 0; head < kv_heads_; ++head) copy_in(rows, head, 0, count);
}

void KeyValues::append(Threads& threads, const float* keys, int64_t key_stride, const float* values,
                       int64_t value_stride, int64_t count) {
  const int64_t chunks = (count + kChunkKeys - 1) / kChunkKeys;
  if (chunks <= 1) return append(keys, key_stride, values, value_stride, count);
  const Rows rows{keys, key_stride, values, value_stride, size()};
  reserve_bias(count);
  if (!table_.extend(count)) throw std::bad_alloc();
  extend_bias();
  threads.for_each(chunks * kv_heads_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % chunks * kChunkKeys;
      copy_in(rows, static_cast<int>(task / chunks), first, std::min(first + kChunkKeys, count));
    }
  });
}

}  // namespace fovea
