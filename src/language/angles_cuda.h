// SPDX-License-Identifier: Apache-2.0
// The angles of interleaved M-RoPE on a GPU: rotary_angles of decoder_angles.h.
#pragma once

#include "device/cuda/runtime.h"
#include "language/decoder.h"

namespace fovea {

// cos and sin: [count][half]; frequencies: [half], as text_frequencies gives them. Frequency i is
// the row's where i % 3 == 1 and i < row_end, the column's where i % 3 == 2 and i < col_end.
struct AngleJob {
  const TokenPosition* positions = nullptr;
  int count = 0;
  const float* frequencies = nullptr;
  int half = 0;
  int row_end = 0;
  int col_end = 0;
  float* cos = nullptr;
  float* sin = nullptr;
};
void rotary_angles_cuda(cudaStream_t stream, const AngleJob& job);

}  // namespace fovea
