// SPDX-License-Identifier: Apache-2.0
// The kernels of attention by themselves, between which attention_cuda chooses. The heads that
// share keys are rows of one problem: row r of a sequence and key head is query r / group, head r %
// group of the group. Where rows are few, the keys are split between blocks; the block that ends
// last puts the parts together, always in the same order.
#pragma once

#include "ops/attention/attention_cuda.h"

namespace fovea {

inline constexpr float kLog2E = 1.44269504088896f;
// A warp weighs the parts of a row, a lane each.
inline constexpr int kMostSplits = 32;

// How keys are split between blocks.
struct SplitRule {
  int granule;  // parts begin at its multiples
  int least;    // keys of a part
  int whole;    // so many keys stay together
};

struct AttentionCall {
  const AttentionSequence* sequences;
  const bf16* q;
  int64_t q_stride;
  bf16* out;
  int64_t out_stride;
  int kv_heads;
  int group;  // heads that share a key head
  int head_dim;
  float scale;  // times log2(e): weights are powers of 2
  bool causal;
  int layer;
  int splits;
  float* parts;    // [slots][splits][rows of a block][dims], then [slots][splits][rows][2]
  unsigned* done;  // [slots]
};

// The kernels by themselves, for blocks of `rows` rows; see each for what it takes.
AttentionCall attention_call(const AttentionShape& shape, const AttentionSequence* sequences,
                             const bf16* q, int64_t q_stride, bf16* out, int64_t out_stride);
void attention_flash_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                          AttentionWorkspace& workspace);
void attention_short_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                          AttentionWorkspace& workspace);
// The same with blocks of 16 row_warps rows, 1 to 3.
void attention_short_cuda(cudaStream_t stream, const AttentionShape& shape,
                          const AttentionCall& call, int row_warps);
void attention_decode_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                           AttentionWorkspace& workspace);
void attention_portable_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                             AttentionWorkspace& workspace);
// Whether rows and keys are so few that attention_short_cuda wins over attention_flash_cuda.
bool attention_short_takes(const AttentionShape& shape, const AttentionCall& call,
                           const AttentionWorkspace& workspace);
// Whether the kernels with tensor cores were compiled for this device.
bool attention_flash_is_compiled();
// Whether the kernel of blocks in clusters (attention_step_cuda.h) was.
bool attention_clusters_are_compiled();
// Into how many parts the keys may go, so that the blocks become at most `wanted`.
int attention_splits(const AttentionShape& shape, int blocks, int wanted, const SplitRule& rule);

}  // namespace fovea
