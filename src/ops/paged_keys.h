// SPDX-License-Identifier: Apache-2.0
// The keys and values of one attention layer, as attention reads them: where they lie, not whose
// they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/key_format.h"

namespace fovea {

// A page holds `page_tokens` tokens, the first page the first ones: [kv_heads][keys, then
// values][page_tokens][head_dim], so that a head's rows of a page lie together. Memory in one piece
// is a single page. In a format with scales, those of a head's keys follow these, and those of its
// values follow them.
struct PagedKeys {
  const float* const* pages = nullptr;
  int64_t size = 0;  // tokens; what a page holds beyond them is never read
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;  // a multiple of step_of(format), or no fewer than `size`
  // Rows that a head has in a page, where these are parts of larger pages; 0: page_tokens.
  int page_rows = 0;
  // How rows are stored: key() and value() read f32 alone, stored_key() and stored_value() any.
  KeyFormat format = KeyFormat::kF32;

  static constexpr int kPageStep = 16;
  // What is not f32 is read by fewer rows at a time, and its pages have less room to lose.
  static constexpr int kNarrowPageStep = 8;
  static constexpr int step_of(KeyFormat format) {
    return format == KeyFormat::kF32 ? kPageStep : kNarrowPageStep;
  }

  // Where the rows of a head begin in a page.
  int64_t head_at(int head) const { return 2 * head * value_after_key(); }
  int64_t value_after_key() const {
    return int64_t{page_rows > 0 ? page_rows : page_tokens} * head_dim;
  }

  const float* key(int head, int64_t index) const {
    // 32 bits, whose division is the faster one: a page table has fewer tokens than that.
    const auto token = static_cast<uint32_t>(index);
    const auto page = token / static_cast<uint32_t>(page_tokens);
    const auto row = token % static_cast<uint32_t>(page_tokens);
    return pages[page] + head_at(head) + int64_t{row} * head_dim;
  }
  const float* value(int head, int64_t index) const { return key(head, index) + value_after_key(); }

  // The row of a key or value and those that follow it in its page, in any format.
  StoredRows stored_key(int head, int64_t index) const { return stored(2 * head, index); }
  StoredRows stored_value(int head, int64_t index) const { return stored(2 * head + 1, index); }
  // How many tokens from this one on lie in its page.
  int64_t run(int64_t index) const {
    return std::min(size - index, page_tokens - index % page_tokens);
  }

 private:
  // Of the parts of a page, which are keys, then values, of each head.
  StoredRows stored(int part, int64_t index) const {
    const auto token = static_cast<uint32_t>(index);
    const auto page = token / static_cast<uint32_t>(page_tokens);
    const auto row = token % static_cast<uint32_t>(page_tokens);
    const int64_t rows = page_rows > 0 ? page_rows : page_tokens;
    const int64_t row_values = int64_t{value_bytes(format)} * head_dim;
    const std::byte* begin =
        reinterpret_cast<const std::byte*>(pages[page]) + part * rows * row_bytes(format, head_dim);
    return {begin + row * row_values,
            reinterpret_cast<const uint16_t*>(begin + rows * row_values) + row};
  }
};

// Values of a page.
constexpr int64_t page_values(int kv_heads, int head_dim, int64_t page_tokens) {
  return 2 * page_tokens * kv_heads * head_dim;
}

}  // namespace fovea
