// SPDX-License-Identifier: Apache-2.0
// Attention of a sequence of tokens in which a token sees some of those before it, by blocks of
// keys: whole blocks of its past, and of its own block the keys up to its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"
#include "ops/attention/attention.h"
#include "ops/attention/sparse/kinds.h"

namespace fovea {

// Tokens [begin, end) of a sequence.
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Keys 64 b to 64 b + 63 of a sequence are its block b, wherever its pages end.
inline constexpr int kTokenBlock = 64;

// What attention() takes, of a sequence whose `params` are causal.
struct TokenAttention {
  const float* q = nullptr;  // [queries][heads * head_dim]
  int64_t q_stride = 0;
  int64_t queries = 0;
  const PagedKeys* kv = nullptr;
  const AttentionParams* params = nullptr;
  // Visual tokens, in order, none twice: each range is what was encoded together.
  std::span<const TokenRange> images;
};

// Causal attention by a kind of AttentionPlace::kText:
//   strided     the token's own block, the one before it, and every 4th
//   window      its own block, the 7 before it, and the first
//   top-blocks  its own block, each that holds text, and of those that hold visual tokens alone the
//               share (a quarter) with the largest product of a query and their mean key, for each
//               kv head and token; heads that share it have it together
//   prefix      all before it; a token of an image also those after it in its range, whose keys
//               must be there
// A token's output depends on nothing but itself and the keys it may see, so that it is the same
// however a sequence is cut into calls, but for prefix and for rounding.
void attend_to_tokens(Threads& threads, const TokenAttention& given, const SparseSettings& settings,
                      float* out, int64_t out_stride);
// Its specification, in f64.
void attend_to_tokens_reference(const TokenAttention& given, const SparseSettings& settings,
                                float* out, int64_t out_stride);

// The share of the keys that dense causal attention computes which is computed, of all heads. Of
// prefix it may be above 1.
double share_of_keys(const TokenAttention& given, const SparseSettings& settings);

// What the forms have in common. Which blocks before block `own` a token of it sees that are not
// chosen by keys, in order; and which are.
struct SeenBlocks {
  std::vector<int> always;
  std::vector<int> candidates;
  int count = 0;  // of the candidates
};
SeenBlocks seen_blocks(const SparseSettings& settings, std::span<const TokenRange> images, int own);
// Behind which key the token at `position` sees none, by prefix.
inline int64_t prefix_limit(std::span<const TokenRange> images, int64_t position) {
  for (const TokenRange& range : images)
    if (position >= range.begin && position < range.end) return range.end;
  return position + 1;
}

}  // namespace fovea
