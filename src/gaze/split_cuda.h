// SPDX-License-Identifier: Apache-2.0
// The greedy step that cortical, thresholds, quadtree and proportional share, by one block.
//
// Split by split, as the CPU does it, a plan of 1,024 cells would take 341 steps one after the
// other. Most of them need not wait for each other. Let the worths be sorted into bins that keep
// their order, and give each cell the lowest bin on its way up to the start. The cells at or above
// a bin are the first that are split, in whatever order, so the block takes at once all down to the
// lowest bin that still fits the budget. What remains, the splits within one bin and those few at
// the canvas's edge that fit a rest of one or two tokens, goes step by step: the best leaf of all
// threads, one barrier each.
#pragma once

#include "gaze/cell_view_cuda.h"

namespace fovea {

inline constexpr int kBins = 4096;

// Arrays over the inner cells of a view, and the states of all of its cells.
struct SplitMemory {
  uint64_t* rest;   // the lower 64 bits of a cell's worth
  uint32_t* top;    // the 32 above
  uint32_t* right;  // the first child, and whether there is one to its right: 0 for no children
  uint32_t* below;  // the child under the first, 0 for none
  uint16_t* bin;
  uint8_t* state;
  int* tokens_of_bin;  // [kBins]
};
inline constexpr uint32_t kHasRight = 0x80000000u;
inline constexpr size_t kBytesOfInner = 8 + 4 + 4 + 4 + 2;

inline size_t split_bytes(const CellView& view) {
  const size_t bytes = static_cast<size_t>(view.inner) * kBytesOfInner + view.count;
  return (bytes + 15) / 16 * 16;
}

// Where the arrays lie: shared memory, after the bins, or, where they do not fit, the workspace.
struct SplitPlace {
  unsigned char* global = nullptr;
  size_t bytes = 0;  // of one block

  __device__ SplitMemory memory(const CellView& view, int block) const {
    auto* shared = dynamic_shared<unsigned char>();
    const auto inner = static_cast<size_t>(view.inner);
    unsigned char* at = global != nullptr ? global + static_cast<size_t>(block) * bytes
                                          : shared + kBins * sizeof(int);
    SplitMemory memory;
    memory.tokens_of_bin = reinterpret_cast<int*>(shared);
    memory.rest = reinterpret_cast<uint64_t*>(at);
    memory.top = reinterpret_cast<uint32_t*>(at + inner * 8);
    memory.right = memory.top + inner;
    memory.below = memory.right + inner;
    memory.bin = reinterpret_cast<uint16_t*>(memory.below + inner);
    memory.state = reinterpret_cast<uint8_t*>(memory.bin + inner);
    return memory;
  }
};

template <class Visit>
__device__ void for_children(const SplitMemory& memory, int index, const Visit& visit) {
  const uint32_t right = memory.right[index];
  if (right == 0) return;
  const bool two = (right & kHasRight) != 0;
  const auto first = static_cast<int>(right & ~kHasRight);
  const auto below = static_cast<int>(memory.below[index]);
  visit(first);
  if (two) visit(first + 1);
  if (below == 0) return;
  visit(below);
  if (two) visit(below + 1);
}

// How many tokens a plan grows by when the cell is split.
__device__ inline int added_by(const SplitMemory& memory, int index) {
  const int wide = (memory.right[index] & kHasRight) != 0 ? 2 : 1;
  return wide * (memory.below[index] != 0 ? 2 : 1) - 1;
}

// Finds the children of every cell, and marks those that a plan starts from.
__device__ inline void link_cells(const CellView& view, const SplitMemory& memory) {
  for (int level = view.top; level >= 0; --level) {
    for (int i = BlockTeam::thread(); i < view.cells(level); i += BlockTeam::threads()) {
      const Cell cell = view.at(level, i);
      const int index = view.first[level] + i;
      memory.state[index] = view.starts(cell) ? kLeaf : kAbsent;
      if (level == 0) continue;
      uint32_t right = 0;
      uint32_t below = 0;
      if (view.holds(cell)) {
        const Cell child{level - 1, cell.row * 2, cell.col * 2};
        const bool two = child.col + 1 < view.col[level - 1] + view.cols[level - 1];
        const bool under = child.row + 1 < view.row[level - 1] + view.rows[level - 1];
        right = static_cast<uint32_t>(view.index(child)) | (two ? kHasRight : 0);
        below =
            under ? static_cast<uint32_t>(view.index({level - 1, child.row + 1, child.col})) : 0;
      }
      memory.right[index] = right;
      memory.below[index] = below;
      memory.rest[index] = 0;
      memory.top[index] = 0;
    }
  }
  __syncthreads();
}

// The position of the highest bit and the five bits below it: bins for worths that are products.
__device__ inline int bin_of_bits(uint32_t top, uint64_t rest) {
  const int bits =
      top != 0 ? 96 - __clz(static_cast<int>(top)) : 64 - __clzll(static_cast<long long>(rest));
  if (bits == 0) return 0;
  // The highest bit moves to bit 63.
  const uint64_t moved =
      bits > 64 ? uint64_t{top} << (128 - bits) | rest >> (bits - 64) : rest << (64 - bits);
  return bits * 32 + static_cast<int>(moved >> 58 & 31);
}

// The lowest bin on the way from the start to each cell.
template <class BinOf>
__device__ void fill_bins(const CellView& view, const SplitMemory& memory, const BinOf& bin_of) {
  for (int i = BlockTeam::thread(); i < view.inner; i += BlockTeam::threads())
    memory.bin[i] = static_cast<uint16_t>(bin_of(memory.top[i], memory.rest[i]));
  for (int i = BlockTeam::thread(); i < kBins; i += BlockTeam::threads())
    memory.tokens_of_bin[i] = 0;
  __syncthreads();
  for (int level = view.top; level >= 1; --level) {
    const int end = view.first[level] + view.cells(level);
    for (int i = view.first[level] + BlockTeam::thread(); i < end; i += BlockTeam::threads()) {
      if (memory.right[i] == 0) continue;
      const uint16_t bin = memory.bin[i];
      atomicAdd(&memory.tokens_of_bin[bin], added_by(memory, i));
      if (level == 1) continue;
      for_children(memory, i, [&](int child) { memory.bin[child] = min(memory.bin[child], bin); });
    }
    __syncthreads();
  }
}

// The lowest bin down to which all splits fit; `left_tokens` is what they leave.
__device__ inline int lowest_bin_that_fits(BlockTeam& team, const SplitMemory& memory,
                                           int64_t& left_tokens) {
  const int run = kBins / BlockTeam::threads();
  const int begin = kBins - 1 - BlockTeam::thread() * run;
  int mine = 0;
  for (int i = 0; i < run; ++i) mine += memory.tokens_of_bin[begin - i];
  int total = 0;
  int sum = team.sum_before(mine, total);
  int fitting = 0;
  int tokens = 0;
  for (int i = 0; i < run; ++i) {
    sum += memory.tokens_of_bin[begin - i];
    if (sum > left_tokens) continue;
    ++fitting;
    tokens += memory.tokens_of_bin[begin - i];
  }
  left_tokens -= team.sum(tokens);
  return kBins - team.sum(fitting);
}

// Splits every cell at or above the bin.
__device__ inline void split_down_to(const CellView& view, const SplitMemory& memory, int bin) {
  for (int i = BlockTeam::thread(); i < view.inner; i += BlockTeam::threads())
    if (memory.state[i] == kLeaf && memory.right[i] != 0 && memory.bin[i] >= bin)
      memory.state[i] = kSplit;
  __syncthreads();
  for (int i = BlockTeam::thread(); i < view.inner; i += BlockTeam::threads()) {
    if (memory.right[i] == 0 || memory.bin[i] < bin) continue;
    for_children(memory, i, [&](int child) {
      const bool split = child < view.inner && memory.bin[child] >= bin;
      memory.state[child] = split ? kSplit : kLeaf;
    });
  }
  __syncthreads();
}

// The leaves of one thread: every so-many-th cell of the list. It alone reads and writes their
// states here.
struct OwnLeaves {
  const CellView& view;
  const SplitMemory& memory;
  Candidate best;

  __device__ bool owns(int index) const {
    return (index & (BlockTeam::threads() - 1)) == BlockTeam::thread();
  }
  __device__ void offer(int index) {
    const Candidate next{memory.rest[index], memory.top[index], index};
    if (next.beats(best)) best = next;
  }
  __device__ void find_best(int64_t left_tokens) {
    best = no_candidate();
    for (int i = BlockTeam::thread(); i < view.inner; i += BlockTeam::threads())
      if (memory.state[i] == kLeaf && memory.right[i] != 0 && added_by(memory, i) <= left_tokens)
        offer(i);
  }
  __device__ void split(int index) {
    for_children(memory, index, [&](int child) {
      if (!owns(child)) return;
      memory.state[child] = kLeaf;
      if (child < view.inner) offer(child);
    });
    if (owns(index)) memory.state[index] = kSplit;
  }
};

__device__ inline int64_t split_one_by_one(BlockTeam& team, const CellView& view,
                                           const SplitMemory& memory, int64_t left_tokens) {
  constexpr int kLargestSplit = 3;
  OwnLeaves own{view, memory, no_candidate()};
  own.find_best(left_tokens);
  for (;;) {
    const Candidate best = team.best(own.best);
    if (best.index == kNoCell) break;
    left_tokens -= added_by(memory, best.index);
    own.split(best.index);
    // Below that, what fits changes with every split; there are few left.
    if (left_tokens < kLargestSplit || own.owns(best.index)) own.find_best(left_tokens);
  }
  __syncthreads();
  return left_tokens;
}

__device__ inline int count_leaves(BlockTeam& team, const CellView& view,
                                   const SplitMemory& memory) {
  int mine = 0;
  for (int i = BlockTeam::thread(); i < view.count; i += BlockTeam::threads())
    mine += memory.state[i] == kLeaf ? 1 : 0;
  return team.sum(mine);
}

// Splits the leaf with the largest worth, again and again, until none fits the budget; the worths
// and links are filled in. bin_of(top, rest) never falls when a worth rises and stays below kBins.
// Returns how many tokens are left.
template <class BinOf>
__device__ int64_t split_cells(BlockTeam& team, const CellView& view, const SplitMemory& memory,
                               int64_t budget_tokens, const BinOf& bin_of) {
  int64_t left_tokens = budget_tokens - count_leaves(team, view, memory);
  fill_bins(view, memory, bin_of);
  const int bin = lowest_bin_that_fits(team, memory, left_tokens);
  split_down_to(view, memory, bin);
  return split_one_by_one(team, view, memory, left_tokens);
}

}  // namespace fovea
