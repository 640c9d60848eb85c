// SPDX-License-Identifier: Apache-2.0
// The keys and values of one attention layer, as attention reads them: where they lie, not whose
// they are.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fovea {

// A page holds `page_tokens` tokens, the first page the first ones: [kv_heads][keys, then
// values][page_tokens][head_dim], so that a head's rows of a page lie together. Memory in one piece
// is a single page.
struct PagedKeys {
  const float* const* pages = nullptr;
  int64_t size = 0;  // tokens; what a page holds beyond them is never read
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;  // a multiple of kPageStep, or no fewer than `size`
  // Rows that a head has in a page, where these are parts of larger pages; 0: page_tokens.
  int page_rows = 0;

  static constexpr int kPageStep = 16;

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
  // How many tokens from this one on lie in its page.
  int64_t run(int64_t index) const {
    return std::min(size - index, page_tokens - index % page_tokens);
  }
};

// Values of a page.
constexpr int64_t page_values(int kv_heads, int head_dim, int64_t page_tokens) {
  return 2 * page_tokens * kv_heads * head_dim;
}

}  // namespace fovea
