// SPDX-License-Identifier: Apache-2.0
// Keys and values in memory of their own, for tests and benches of operations.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "ops/paged_keys.h"

namespace fovea {

// One page, or pages of `page_tokens` tokens, which lie apart from each other. What holds no token
// is not a number in any format: whoever reads it shows.
class PlainKeys {
 public:
  PlainKeys(int kv_heads, int head_dim, int page_tokens = 0, KeyFormat format = KeyFormat::kF32)
      : kv_heads_(kv_heads), head_dim_(head_dim), page_tokens_(page_tokens), format_(format) {}

  int kv_heads() const { return kv_heads_; }
  int head_dim() const { return head_dim_; }
  int64_t size() const { return size_; }

  // [count][kv_heads * head_dim], rows so many values apart.
  void append(const float* keys, int64_t key_stride, const float* values, int64_t value_stride,
              int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      keys_.insert(keys_.end(), keys + i * key_stride, keys + i * key_stride + width());
      values_.insert(values_.end(), values + i * value_stride, values + i * value_stride + width());
    }
    size_ += count;
    laid_out_ = false;
  }

  PagedKeys view() const {
    if (!laid_out_) lay_out();
    return {.pages = pointers_.data(),
            .size = size_,
            .kv_heads = kv_heads_,
            .head_dim = head_dim_,
            .page_tokens = static_cast<int>(tokens_per_page()),
            .format = format_};
  }
  const float* key(int head, int64_t index) const { return view().key(head, index); }
  const float* value(int head, int64_t index) const { return view().value(head, index); }

 private:
  int64_t width() const { return int64_t{kv_heads_} * head_dim_; }
  int64_t tokens_per_page() const { return page_tokens_ > 0 ? page_tokens_ : size_; }

  void lay_out() const {
    const int64_t tokens = tokens_per_page();
    pages_.clear();
    pointers_.clear();
    for (int64_t first = 0; first < size_; first += tokens) {
      auto& page =
          pages_.emplace_back(static_cast<size_t>(page_values(kv_heads_, head_dim_, tokens)),
                              std::bit_cast<float>(~uint32_t{0}));
      for (int head = 0; head < kv_heads_; ++head)
        for (const bool value : {false, true}) {
          auto* begin = reinterpret_cast<std::byte*>(page.data()) +
                        (2 * head + (value ? 1 : 0)) * tokens * row_bytes(format_, head_dim_);
          narrow_rows(
              format_,
              (value ? values_ : keys_).data() + first * width() + int64_t{head} * head_dim_,
              width(), std::min(tokens, size_ - first), head_dim_, begin,
              reinterpret_cast<uint16_t*>(begin + tokens * head_dim_ * value_bytes(format_)));
        }
    }
    for (const auto& page : pages_) pointers_.push_back(page.data());
    laid_out_ = true;
  }

  int kv_heads_;
  int head_dim_;
  int page_tokens_;
  KeyFormat format_;
  int64_t size_ = 0;
  std::vector<float> keys_;  // [size][kv_heads * head_dim]
  std::vector<float> values_;
  mutable bool laid_out_ = false;
  mutable std::vector<std::vector<float>> pages_;
  mutable std::vector<const float*> pointers_;
};

}  // namespace fovea
