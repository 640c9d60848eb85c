// SPDX-License-Identifier: Apache-2.0
// Attention of blocks of rows to chosen keys on a GPU: what a choice looks like in device memory,
// and the kernels that make one and attend to it. What each computes is said in chosen_keys.h.
//
// Rows of one sequence stand in the order of RowBlocks. A block of queries sees a list of blocks of
// keys in full, then coarse keys: the means of 4x4, or every so many rows. Heads have their own
// keys. Products are bf16, sums f32.
#pragma once

#include <cstdint>

#include "device/cuda/bf16.h"
#include "fovea/result.h"
#include "ops/attention/sparse/chosen_keys.h"

namespace fovea {

// Neighbouring rows, at most 64: a block. `bias` is added to the scores of each.
struct alignas(16) RowSpan {
  int first = 0;
  int count = 0;
  float bias = 0;
  int unused = 0;
};

// A block has so many groups in device memory: where it has fewer, its first one stands there
// again, which changes no maximum, with a bias of -infinity, so that nobody attends to it.
inline constexpr int kGroupsOfBlock = 4;
// Biases of coarse keys go on with -infinity to a multiple of this.
inline constexpr int kCoarseStep = 128;
// One word says of so many blocks which are left out.
inline constexpr int kBlocksOfWord = 32;

// What the attention of a layer is computed from. Rows of q and out begin at multiples of 8 values.
struct SparseRows {
  const bf16* q = nullptr;  // [rows][heads][head_dim]
  int64_t q_stride = 0;
  const bf16* keys = nullptr;    // [heads][capacity][head_dim]
  const bf16* values = nullptr;  // the same
  int capacity = 0;
  int rows = 0;
  int heads = 0;
  int head_dim = 0;  // a multiple of 8, at most 128
  int blocks = 0;
  const RowSpan* spans = nullptr;   // [blocks]; the bias is that of the block's keys
  const RowSpan* groups = nullptr;  // [blocks][kGroupsOfBlock]
  float scale = 1;                  // of q . k, above 0
};

// Means of groups, each [heads][blocks][kGroupsOfBlock][head_dim].
struct GroupMeans {
  bf16* queries = nullptr;
  bf16* keys = nullptr;
  bf16* values = nullptr;
};
// Queries are left out where the means have no place for them.
void mean_groups_cuda(cudaStream_t stream, const SparseRows& rows, const GroupMeans& means);

// What a block of queries sees in full, for each head, or for all of them alike.
struct BlockLists {
  bool per_head = false;
  int room = 0;              // of a list
  RowSpan* lists = nullptr;  // [heads or 1][blocks][room]
  int* counts = nullptr;     // [heads or 1][blocks]; null: `room` of each
  // [heads or 1][blocks][words]: which blocks are in the list, so that their coarse keys are left
  // out; null: none are. words = ceil(blocks / kBlocksOfWord).
  unsigned* in_full = nullptr;
  // Whether every list has an even number of whole blocks of 64 rows without bias.
  bool is_even = false;
};

// Of each head and block of queries, the lists.room blocks whose groups have the largest product of
// mean query and mean key, its own block always (choose_best_blocks). Scores lie in the shared
// memory of a block of threads, which may have shared_bytes.
void choose_blocks_cuda(cudaStream_t stream, const SparseRows& rows, const GroupMeans& means,
                        const BlockLists& lists, size_t shared_bytes);
// For so many blocks at most, and for fewer where shared memory is short.
inline constexpr int kMostChosenFrom = 4096;
int most_chosen_from(int head_dim, size_t shared_bytes);

struct CoarseKeys {
  const bf16* keys = nullptr;
  const bf16* values = nullptr;
  int64_t head_stride = 0;  // in values, a multiple of 8
  int64_t row_stride = 0;
  int count = 0;
  // Of each, up to a multiple of kCoarseStep; null: all have the same, and are whole blocks' groups
  // or, with `every`, rows.
  const float* biases = nullptr;
  float bias = 0;
  // They are every so many rows, and those of the own block are left out; or 0.
  int every = 0;
};

struct SparseCall {
  SparseRows rows;
  BlockLists full;    // none where room is 0
  CoarseKeys coarse;  // none where count is 0
  // With a window, what a query sees of the list alone; places are x | y << 16.
  KeyWindow window;
  const uint32_t* places = nullptr;  // [rows]
  bf16* out = nullptr;               // [rows][heads][head_dim]
  int64_t out_stride = 0;
};

// By warps of 16 rows, on sm_80 and later; emulated too.
void attend_spans_cuda(cudaStream_t stream, const SparseCall& call);

// By warpgroups, on sm_90a, heads of 64 values.
bool sparse_long_is_compiled();
bool sparse_long_takes(const SparseCall& call);
// Where the driver refuses, nothing was enqueued and the reason is told.
Status sparse_long_cuda(cudaStream_t stream, const SparseCall& call, int multiprocessors);

}  // namespace fovea
