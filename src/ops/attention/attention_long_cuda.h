// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to many keys, by the warpgroups of sm_90a; for a sequence that the host
// knows and that sees all its keys.
#pragma once

#include "ops/attention/attention_cuda.h"

namespace fovea {

// Whether it was compiled for this device.
bool attention_long_is_compiled();

// Whether it can take them, on a device whose workspace this is.
bool attention_long_takes(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                          int64_t q_stride, const AttentionWorkspace& workspace);

// Enqueues the attention of sequences that it takes, which the host knows. Where the driver
// refuses, the reason is told and not all was enqueued.
Status attention_long_cuda(cudaStream_t stream, const AttentionShape& shape,
                           std::span<const AttentionSequence> sequences, const bf16* q,
                           int64_t q_stride, bf16* out, int64_t out_stride,
                           AttentionWorkspace& workspace);

// Keys and values in pages of 64 tokens of one layer: [pages][kv_heads][keys,
// values][64][head_dim]. What of a page holds no token is finite.
struct LongPages {
  const bf16* pages = nullptr;
  int64_t count = 0;
  std::span<const int* const> tables;  // [sequences], on the device: the pages of a sequence's keys
};

// As attention_long_cuda, with heads of 64 or 128 values; of the sequences, keys, values and
// capacity are not read.
Status attention_long_pages_cuda(cudaStream_t stream, const AttentionShape& shape,
                                 std::span<const AttentionSequence> sequences,
                                 const LongPages& pages, const bf16* q, int64_t q_stride, bf16* out,
                                 int64_t out_stride, AttentionWorkspace& workspace);

}  // namespace fovea
