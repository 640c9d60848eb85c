// SPDX-License-Identifier: Apache-2.0
// Which rows and keys the blocks of attention_long_cuda take, and in which order. Host and device
// know the same; attention_long_tiles_cuda_test.cc walks it.
#pragma once

#include <algorithm>

#include "device/cuda/runtime.h"

namespace fovea {

inline constexpr int kLongRows = 64;  // of a warpgroup

// kernel.h's ceil_div is for what is compiled as a kernel; the test of this file is not.
__host__ __device__ constexpr int pieces_of(int value, int piece) {
  return (value + piece - 1) / piece;
}

// Of one launch: what is said of them are the kernel's parameters.
inline constexpr int kLongSequences = 12;

// Tiles of a head: `large` of all warpgroups' rows, then `small` of one warpgroup's less.
struct LongSequence {
  int q_begin;
  int queries;
  int keys;
  int first_query;  // query i sees the keys [0, first_query + i]; `keys` where it sees all
  int first_key;    // where its keys begin, of keys of eight bits
  int first_tile;
  int large;
  int small;
};

enum class LongOrder {
  kHeads,      // head after head, so that few heads' keys are read at a time
  kLargest,    // all heads' large tiles before their small ones
  kMostKeys,   // all heads' last rows first, which see most keys: few tiles end at the same time
  kEachHeads,  // head after head, the last rows of each first
};

struct LongPlan {
  LongSequence sequences[kLongSequences];
  int count;  // of sequences
  int heads;
  int tiles;
  LongOrder order;
};

struct LongTile {
  int sequence;
  int head;
  int row;              // of the sequence
  int groups;           // of its rows
  int keys;             // that its rows see
  float scale = 0;      // of keys of eight bits: of its scores, times log2(e)
  float out_scale = 0;  // and of its sums
};

// How many keys query `row` sees.
__host__ __device__ inline int long_keys_of(const LongSequence& sequence, int row) {
  const int seen = sequence.first_query + row + 1;
  return seen < sequence.keys ? seen : sequence.keys;
}

template <int kGroups>
__host__ __device__ LongTile long_tile(const LongPlan& plan, int index) {
  int number = 0;
  while (number + 1 < plan.count && index >= plan.sequences[number + 1].first_tile) ++number;
  const LongSequence& sequence = plan.sequences[number];
  index -= sequence.first_tile;
  const int of_head = sequence.large + sequence.small;
  int head = 0;
  int tile = 0;
  switch (plan.order) {
    case LongOrder::kHeads:
      head = index / of_head;
      tile = index % of_head;
      break;
    case LongOrder::kEachHeads:
      head = index / of_head;
      tile = of_head - 1 - index % of_head;
      break;
    case LongOrder::kMostKeys:
      head = index % plan.heads;
      tile = of_head - 1 - index / plan.heads;
      break;
    case LongOrder::kLargest: {
      const int large = plan.heads * sequence.large;
      const int each = index < large ? sequence.large : sequence.small;
      head = (index < large ? index : index - large) / each;
      tile = (index < large ? index : index - large) % each;
      if (index >= large) tile += sequence.large;
      break;
    }
  }
  const bool is_large = tile < sequence.large;
  const int before = is_large ? tile * kGroups
                              : sequence.large * kGroups + (tile - sequence.large) * (kGroups - 1);
  const int rows_left = sequence.queries - before * kLongRows;
  const int most = is_large ? kGroups : kGroups - 1;
  const int left = pieces_of(rows_left, kLongRows);
  const int groups = left < most ? left : most;
  const int rows = rows_left < groups * kLongRows ? rows_left : groups * kLongRows;
  return {number, head, before * kLongRows, groups,
          long_keys_of(sequence, before * kLongRows + rows - 1)};
}

// What a tile of one warpgroup less costs beside a large one: 0.76 was measured for two beside
// three, 0.83 for one beside two. The fewer multiply at a time, the less of the weighing is hidden.
inline constexpr double kSmallCost = 0.8;
// Keys and values that stay in the second cache while all heads read them.
inline constexpr double kCachedBytes = 24e6;

// Tiles of a sequence whose rows see all keys: all multiprocessors are to end at about the same
// time. Block 0 has as many tiles as any, and as many large ones: its time decides.
inline void choose_long_tiles(LongSequence& sequence, int heads, int most, int blocks) {
  const int groups = pieces_of(sequence.queries, kLongRows);
  double best = 0;
  for (int small = 0; small <= pieces_of(groups, most - 1); ++small) {
    const int large = pieces_of(std::max(0, groups - small * (most - 1)), most);
    const int rounds_of_large = pieces_of(heads * large, blocks);
    const int rounds = pieces_of(heads * (large + small), blocks);
    const double cost = rounds_of_large + kSmallCost * (rounds - rounds_of_large);
    if (small > 0 && cost >= best) continue;
    best = cost;
    sequence.large = large;
    sequence.small = small;
  }
}

// The tiles of plan.sequences, of `most` warpgroups each, for so many blocks.
inline void choose_long_plan(LongPlan& plan, int most, int blocks, bool causal,
                             double bytes_of_key) {
  plan.tiles = 0;
  double keys = 0;
  for (int i = 0; i < plan.count; ++i) {
    LongSequence& sequence = plan.sequences[i];
    sequence.large = pieces_of(sequence.queries, most * kLongRows);
    sequence.small = 0;
    if (!causal && plan.count == 1) choose_long_tiles(sequence, plan.heads, most, blocks);
    sequence.first_tile = plan.tiles;
    plan.tiles += plan.heads * (sequence.large + sequence.small);
    keys = std::max(keys, static_cast<double>(sequence.keys));
  }
  if (!causal)
    plan.order = plan.count == 1 ? LongOrder::kLargest : LongOrder::kHeads;
  else
    plan.order = keys * bytes_of_key <= kCachedBytes ? LongOrder::kMostKeys : LongOrder::kEachHeads;
}

}  // namespace fovea
