// SPDX-License-Identifier: Apache-2.0
#include "memory/key_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

constexpr int64_t kChunkKeys = 512;
constexpr int64_t kLine = 64;  // bytes; pages are whole lines

int64_t token_bytes(int kv_heads, int head_dim, KeyFormat format) {
  return int64_t{2} * kv_heads * row_bytes(format, head_dim);
}

// Rows that their owner writes: their pages are its own, and only attention sees them as constant.
struct OwnRows {
  explicit OwnRows(const StoredRows& rows)
      : values(const_cast<std::byte*>(rows.values)), scales(const_cast<uint16_t*>(rows.scales)) {}
  std::byte* values;
  uint16_t* scales;
};

}  // namespace

int64_t page_bytes_for(int kv_heads, int head_dim) {
  return (kPageTokens * token_bytes(kv_heads, head_dim, KeyFormat::kF32) + kLine - 1) / kLine *
         kLine;
}

int tokens_of_page(int64_t page_bytes, int kv_heads, int head_dim, KeyFormat format) {
  const int64_t tokens = page_bytes / token_bytes(kv_heads, head_dim, format);
  const int step = PagedKeys::step_of(format);
  return static_cast<int>(tokens / step * step);
}

int64_t pages_for(int64_t tokens, int64_t page_bytes, int kv_heads, int head_dim,
                  KeyFormat format) {
  const int64_t page_tokens = tokens_of_page(page_bytes, kv_heads, head_dim, format);
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

KeyValues::KeyValues(std::shared_ptr<Reservation> from, int kv_heads, int head_dim,
                     KeyFormat format)
    : kv_heads_(kv_heads), head_dim_(head_dim), format_(format) {
  const int page_tokens = tokens_of_page(from->pool()->page_bytes(), kv_heads, head_dim, format);
  FOVEA_CHECK(page_tokens > 0);
  table_ = PageTable(std::move(from), page_tokens);
}

PagedKeys KeyValues::view() const { return view_of(table_); }

PagedKeys KeyValues::view_of(const PageTable& table) const {
  // A pointer is a pointer, and what pages of f32 hold was written as floats.
  return {.pages = reinterpret_cast<const float* const*>(table.data()),
          .size = table.size(),
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .page_tokens = static_cast<int>(table.page_tokens()),
          .format = format_};
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
  // Rows made of several keys, until all of them are there; a key that stays one is copied.
  const size_t head_values = static_cast<size_t>(head_dim_);
  std::unordered_map<int64_t, std::vector<float>> sums;
  std::vector<float> wide(head_values);
  for (int64_t key = 0; key < from.size; ++key) {
    const int64_t row = row_of(key);
    if (row < 0) continue;
    const float part = size_of(key) / sizes[static_cast<size_t>(row)];
    if (part == 1) {
      for (int head = 0; head < kv_heads_; ++head) copy_row(from, to, head, key, row);
      continue;
    }
    std::vector<float>& sum = sums[row];
    sum.resize(2 * static_cast<size_t>(kv_heads_) * head_values);
    for (int part_of_page = 0; part_of_page < 2 * kv_heads_; ++part_of_page) {
      const int head = part_of_page / 2;
      widen_rows(format_,
                 part_of_page % 2 == 0 ? from.stored_key(head, key) : from.stored_value(head, key),
                 1, head_dim_, wide.data());
      float* to_row = sum.data() + static_cast<size_t>(part_of_page) * head_values;
      for (size_t d = 0; d < head_values; ++d) to_row[d] += part * wide[d];
    }
  }
  for (const auto& [row, sum] : sums) {
    for (int head = 0; head < kv_heads_; ++head) {
      const float* key = sum.data() + static_cast<size_t>(2 * head) * head_values;
      const OwnRows keys(to.stored_key(head, row));
      const OwnRows values(to.stored_value(head, row));
      narrow_rows(format_, key, head_dim_, 1, head_dim_, keys.values, keys.scales);
      narrow_rows(format_, key + head_dim_, head_dim_, 1, head_dim_, values.values, values.scales);
    }
  }
  const bool biased = std::any_of(sizes.begin(), sizes.end(), [](float size) { return size != 1; });
  std::vector<float> bias(biased ? static_cast<size_t>(rows) : 0);
  for (size_t row = 0; row < bias.size(); ++row) bias[row] = std::log(sizes[row]);
  table_ = std::move(moved);
  bias_ = std::move(bias);
}

void KeyValues::copy_row(const PagedKeys& from, const PagedKeys& to, int head, int64_t key,
                         int64_t row) const {
  const auto copy = [&](const StoredRows& source, const OwnRows& target) {
    std::memcpy(target.values, source.values,
                static_cast<size_t>(value_bytes(format_)) * static_cast<size_t>(head_dim_));
    if (scale_bytes(format_) > 0) *target.scales = *source.scales;
  };
  copy(from.stored_key(head, key), OwnRows(to.stored_key(head, row)));
  copy(from.stored_value(head, key), OwnRows(to.stored_value(head, row)));
}

void KeyValues::copy_in(const Rows& rows, int head, int64_t begin, int64_t end) {
  const PagedKeys all = view();
  const int64_t from = int64_t{head} * head_dim_;
  while (begin < end) {
    const int64_t run = std::min(end - begin, all.run(rows.first + begin));
    const OwnRows keys(all.stored_key(head, rows.first + begin));
    const OwnRows values(all.stored_value(head, rows.first + begin));
    narrow_rows(format_, rows.keys + begin * rows.key_stride + from, rows.key_stride, run,
                head_dim_, keys.values, keys.scales);
    narrow_rows(format_, rows.values + begin * rows.value_stride + from, rows.value_stride, run,
                head_dim_, values.values, values.scales);
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
