// SPDX-License-Identifier: Apache-2.0
// The first kernel of a decode step whose tokens were drawn on the GPU.
#pragma once

#include "device/cuda/bf16.h"
#include "language/angles_cuda.h"
#include "ops/attention/attention_cuda.h"
#include "ops/rows_cuda.h"

namespace fovea {

// Moves sequences on by the token that was chosen for each, positions and places, and embeds it:
// hidden[s] = its row of the table, and the angles of its position. It does not begin before all
// that was enqueued before it has ended, which attention_step_cuda relies on.
struct StepStart {
  const int* ids = nullptr;  // [sequences] each
  // 1 where the sequence moves on; 0 where it is idle: its row is computed, and stays where it is.
  const int* moves = nullptr;
  TokenPosition* positions = nullptr;
  RowPlace* places = nullptr;
  AttentionSequence* sequences_at = nullptr;
  int sequences = 0;
  const bf16* table = nullptr;  // [.][cols]
  int cols = 0;                 // a multiple of 8
  float* hidden = nullptr;      // [sequences][cols]
  AngleJob angles;
};
void begin_step_cuda(cudaStream_t stream, const StepStart& start);

}  // namespace fovea
