// SPDX-License-Identifier: Apache-2.0
// Attention in which each block of queries has its own keys, and the choices that make them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "ops/attention/attention.h"
#include "ops/attention/sparse/row_blocks.h"

namespace fovea {

// Neighbouring keys, of the rows or, if pooled, of the groups.
struct KeyRange {
  int32_t first = 0;
  int32_t count = 0;
  bool pooled = false;
};

// Of the rows that were chosen a query sees those of its own level whose distance in x and in y is
// at most `radius` steps of `step` places. Radius 0: all that were chosen.
struct KeyWindow {
  int32_t radius = 0;
  int32_t step = 1;

  bool sees(const GridPlace& query, const GridPlace& key) const {
    const int32_t dx = query.x - key.x;
    const int32_t dy = query.y - key.y;
    return query.level == key.level && dx % step == 0 && dy % step == 0 && dx <= radius * step &&
           -dx <= radius * step && dy <= radius * step && -dy <= radius * step;
  }
};

// What each block of queries attends to.
struct ChosenKeys {
  bool per_head = false;         // a choice for each kv head, or one for all of them
  std::vector<int64_t> begins;   // [(heads with a choice) * blocks + 1], into `ranges`
  std::vector<KeyRange> ranges;  // of a block: in order, none twice
  KeyWindow window;              // with it, no pooled keys

  // The share of all queries x keys, of all heads, that is computed.
  double share(const RowBlocks& rows) const;
};

// The mean key and value of each group, with the bias by which one key counts as its group:
// log(rows of the group), and what `key_bias` gives its rows, which is the same for all of them.
class PooledKeys {
 public:
  PooledKeys(Threads& threads, const PagedKeys& kv, const float* key_bias, const RowBlocks& rows)
      : PooledKeys(threads, kv, key_bias, rows.group_begins) {}
  // Of other groups: [groups + 1], the first row of each.
  PooledKeys(Threads& threads, const PagedKeys& kv, const float* key_bias,
             std::span<const int32_t> group_begins);

  PagedKeys view() const;
  const float* biases() const { return biases_.data(); }

 private:
  int kv_heads_ = 0;
  int head_dim_ = 0;
  int64_t groups_ = 0;
  Buffer<float> values_;  // a page that holds them all
  const float* page_ = nullptr;
  std::vector<float> biases_;
};

// What the three below have in common. Queries, keys and output are in the order of `rows`.
struct SparseAttention {
  const float* q = nullptr;  // [rows][heads * head_dim]
  int64_t q_stride = 0;
  const PagedKeys* kv = nullptr;            // [rows]
  const AttentionParams* params = nullptr;  // not causal
  const RowBlocks* rows = nullptr;
  const PooledKeys* pooled = nullptr;  // where the choice has pooled keys, or is made by them
};

// attention(), where query i sees the keys that are chosen for its block.
void attention_to_chosen(Threads& threads, const SparseAttention& given, const ChosenKeys& chosen,
                         float* out, int64_t out_stride);
// Its specification, in f64, for the queries of some blocks.
struct BlockRange {
  int first = 0;
  int end = 0;
};
void attention_to_chosen_reference(const SparseAttention& given, const ChosenKeys& chosen,
                                   BlockRange of, float* out, int64_t out_stride);

// The windows of 3x3 (radius 1), 5x5 (radius 2) or more rows around each query; dilated, every
// `step`-th row of a window that is `step` times as wide.
ChosenKeys choose_window(const RowBlocks& rows, KeyWindow window);
// Every `stride`-th row, and the query's own block, whose rows may be none of them.
ChosenKeys choose_strided(const RowBlocks& rows, int stride);

// Every group, by its mean: the projection of keys and values that Linformer learns, in the place
// of which a checkpoint that has none gets this one.
ChosenKeys choose_groups(const RowBlocks& rows);

enum class OtherBlocks { kNone, kPooled };
enum class BestBlocks { kRows, kPooled };
// Of each kv head and block of queries, the `count` blocks whose groups have the largest product of
// mean queries and mean keys; its own block always. They are seen by their rows, or by their
// groups; the others not at all, or by their groups.
ChosenKeys choose_best_blocks(Threads& threads, const SparseAttention& given, int count,
                              OtherBlocks others, BestBlocks best = BestBlocks::kRows);
// The same in f64 and plain loops.
ChosenKeys choose_best_blocks_reference(const SparseAttention& given, int count,
                                        OtherBlocks others);

// One choice for all heads and queries: the `count` blocks that get most of the attention of the
// mean queries of all groups to the mean keys of all groups, each as its rows. They are seen by
// their rows, as is a block by itself; the others by their groups.
ChosenKeys choose_shared_blocks(Threads& threads, const SparseAttention& given, int count);
ChosenKeys choose_shared_blocks_reference(const SparseAttention& given, int count);

// largest[a * blocks + b]: the largest product of a mean query of block a and a mean key of block
// b, of one kv head; all query heads that share it are its queries.
void block_scores(const SparseAttention& given, const float* mean_queries, int kv_head,
                  float* largest);

}  // namespace fovea
