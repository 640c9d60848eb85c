// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN, for one long sequence that sees itself whole. The library is opened when it
// is first asked for; where it is missing or does not take a shape, the reason is told and our own
// kernels do the work.
#pragma once

#include "ops/attention_cuda.h"

namespace fovea {

// Whether cuDNN is there, for the current device.
bool cudnn_attention_available();

// Enqueues the attention of attention_dense_cuda, or tells why it cannot; then nothing was
// enqueued. A shape's plan is made at its first call, which must not be one that a graph captures:
// then the answer is no.
Status attention_cudnn(cudaStream_t stream, const AttentionShape& shape,
                       const AttentionSequence& sequence, const bf16* q, int64_t q_stride,
                       bf16* out, int64_t out_stride, AttentionWorkspace& workspace);

}  // namespace fovea
