// SPDX-License-Identifier: Apache-2.0
// Rotation and attention in one kernel, for sequences that see themselves alone and whose keys
// nobody asks for later: what rotate_heads_cuda and attention_cuda give, without keys and values in
// memory of their own.
#pragma once

#include "ops/attention/attention_cuda.h"

namespace fovea {

// What a product left of packed sequences, not yet rotated.
struct RotaryRows {
  const bf16* qkv = nullptr;   // [rows][queries, keys, values][heads][head_dim]
  const float* cos = nullptr;  // [rows][head_dim / 2]
  const float* sin = nullptr;
  // In device memory, written before the kernel before this one began; of each, q_begin, q_count
  // and key_bias [q_count] are read. Null: one sequence, the first max_q_count rows, without bias.
  const AttentionSequence* sequences = nullptr;
};

// How the work is shared, for heads of 64 values; other heads have the first form.
struct RotaryForm {
  int row_warps = 3;  // a block takes 16 times as many rows: 2, 3 or, without clusters, 4
  // Blocks of a head that rotate its keys together, each a share for all: from sm_90 on, at most 8.
  // 1: each block rotates all keys.
  int cluster = 1;
};

// Whether attention_rotary_cuda is there for such sequences, and wins. max_key_count is not read.
bool attention_rotary_takes(const AttentionShape& shape, const AttentionWorkspace& workspace,
                            KernelChoice choice);
// out[row] = the attention of query row; rows of out are [heads][head_dim], so many values apart
// and beginning at multiples of 8 values.
void attention_rotary_cuda(cudaStream_t stream, const AttentionShape& shape, const RotaryRows& rows,
                           bf16* out, int64_t out_stride, const AttentionWorkspace& workspace);
void attention_rotary_cuda(cudaStream_t stream, const AttentionShape& shape, const RotaryRows& rows,
                           bf16* out, int64_t out_stride, const RotaryForm& form);

}  // namespace fovea
