// SPDX-License-Identifier: Apache-2.0
#include "memory/key_values.h"

#include <algorithm>
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

PagedKeys KeyValues::view() const {
  // A pointer is a pointer, and what the pages hold was written as floats.
  return {.pages = reinterpret_cast<const float* const*>(table_.data()),
          .size = table_.size(),
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .page_tokens = static_cast<int>(table_.page_tokens())};
}

void KeyValues::reserve(int64_t keys) {
  if (!table_.reserve(keys)) throw std::bad_alloc();
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
  if (!table_.extend(count)) throw std::bad_alloc();
  for (int head = 0; head < kv_heads_; ++head) copy_in(rows, head, 0, count);
}

void KeyValues::append(Threads& threads, const float* keys, int64_t key_stride, const float* values,
                       int64_t value_stride, int64_t count) {
  const int64_t chunks = (count + kChunkKeys - 1) / kChunkKeys;
  if (chunks <= 1) return append(keys, key_stride, values, value_stride, count);
  const Rows rows{keys, key_stride, values, value_stride, size()};
  if (!table_.extend(count)) throw std::bad_alloc();
  threads.for_each(chunks * kv_heads_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % chunks * kChunkKeys;
      copy_in(rows, static_cast<int>(task / chunks), first, std::min(first + kChunkKeys, count));
    }
  });
}

}  // namespace fovea
