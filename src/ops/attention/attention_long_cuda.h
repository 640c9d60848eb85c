// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to many keys, by the warpgroups of sm_90a; for a sequence that the host
// knows and that sees all its keys.
#pragma once

#include "ops/attention/attention_cuda.h"

namespace fovea {

// Whether it was compiled for this device.
bool attention_long_is_compiled();

// Whether it can take the shape, on a device whose workspace this is.
bool attention_long_takes(const AttentionShape& shape, const AttentionSequence& sequence,
                          int64_t q_stride, const AttentionWorkspace& workspace);

// Enqueues the attention of one sequence, of a shape that it takes. Where the driver refuses,
// nothing was enqueued and the reason is told.
Status attention_long_cuda(cudaStream_t stream, const AttentionShape& shape,
                           const AttentionSequence& sequence, const bf16* q, int64_t q_stride,
                           bf16* out, int64_t out_stride, AttentionWorkspace& workspace);

}  // namespace fovea
