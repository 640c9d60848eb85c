// SPDX-License-Identifier: Apache-2.0
// What the kernels that attend to chosen keys share: which those are.
#pragma once

#include "device/cuda/kernel.h"
#include "ops/attention/attention_parts_cuda.h"
#include "ops/attention/sparse/sparse_cuda.h"

namespace fovea {

// The choice of a block of queries and a head.
struct SpanChoice {
  const RowSpan* list;
  const unsigned* in_full;  // null: nothing is left out of the coarse keys
  int64_t index;

  __device__ SpanChoice(const SparseCall& call, int head, int block) {
    const BlockLists& full = call.full;
    index = (full.per_head ? int64_t{head} * call.rows.blocks : 0) + block;
    list = full.lists + index * full.room;
    in_full = full.in_full == nullptr
                  ? nullptr
                  : full.in_full + index * ceil_div(call.rows.blocks, kBlocksOfWord);
  }
  __device__ int spans(const SparseCall& call) const {
    return call.full.counts == nullptr ? call.full.room : call.full.counts[index];
  }
};

// Of a coarse key for a block of queries: -infinity where it does not see it.
__device__ inline float bias_of_coarse(const SparseCall& call, const SpanChoice& choice,
                                       const RowSpan& own, int key) {
  const CoarseKeys& coarse = call.coarse;
  if (key >= coarse.count) return minus_infinity();
  const int block = key / kGroupsOfBlock;
  if (choice.in_full != nullptr &&
      (choice.in_full[block / kBlocksOfWord] >> block % kBlocksOfWord & 1) != 0)
    return minus_infinity();
  if (coarse.every > 0 && key * coarse.every >= own.first &&
      key * coarse.every < own.first + own.count)
    return minus_infinity();
  return coarse.biases == nullptr ? coarse.bias : coarse.biases[key];
}

// Whether a query sees a key of its level; places are x | y << 16. Steps are powers of 2, and
// the reach is a multiple of one.
__device__ inline bool window_sees(const KeyWindow& window, uint32_t query, uint32_t key) {
  const auto reach = static_cast<unsigned>(window.radius * window.step);
  const unsigned dx = (query & 0xFFFF) + reach - (key & 0xFFFF);
  const unsigned dy = (query >> 16) + reach - (key >> 16);
  return dx <= 2 * reach && dy <= 2 * reach &&
         ((dx | dy) & static_cast<unsigned>(window.step - 1)) == 0;
}

}  // namespace fovea
