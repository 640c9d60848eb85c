// SPDX-License-Identifier: Apache-2.0
// Attention of one new token of each of several sequences, from what the product for queries, keys
// and values gave: rotate_heads_cuda and attention_cuda in one kernel.
#pragma once

#include "ops/attention/attention_cuda.h"
#include "ops/rows_cuda.h"

namespace fovea {

// How keys are shared by blocks. All of it is for speed alone. In clusters where the workspace has
// them, in parts otherwise.
struct StepSplit {
  // Clusters: so many blocks or less to a key head, 1, 2, 4 or 8, of so many warps, 8 or 16; no
  // blocks: in parts.
  int cluster = 8;
  int cluster_warps = 8;
  // Parts.
  int warps = 8;       // of a block: 8 or 16; a warp takes 8 keys at once, 16 of up to 64 values
  int part_keys = 64;  // of a block, rounded up to what its warps take at once, unless there are
                       // more parts than kMostSplits or blocks than the device has room for
  int whole_keys = 0;  // up to so many stay together
};

struct StepShape {
  // Row r is the only new token of a sequence whose memory is its place: it sees the keys before
  // its position, and itself. `q` and `q_stride` are not used.
  RotaryJob rotary;
  float scale = 1;   // of q . k, above 0
  int max_keys = 0;  // of a sequence, the new one included; a hint
  bf16* out = nullptr;
  int64_t out_stride = 0;  // 0: heads * head_dim
  StepSplit split = {};
};

// Up to 4 heads to a key head, of a multiple of 8 values up to 128; strides are multiples of 8.
bool attention_step_takes(const RotaryJob& rotary);

// Keys and values that lie before a position are loaded while the kernels before this one still
// run. So they must have been written by work that has ended when the first of these begins: a
// graph launched earlier, or kernels before one that does not overlap. Places may lie one position
// behind until the kernel before this one has ended, and be the same otherwise.
void attention_step_cuda(cudaStream_t stream, const StepShape& shape,
                         AttentionWorkspace& workspace);

}  // namespace fovea
