// SPDX-License-Identifier: Apache-2.0
// Attention in eight bits a value (e4m3) on the GPU: queries, keys and values are rounded with a
// scale for each head, or for each tensor, queries and keys rotated before so that large values
// spread over a head; products are of eight bits, sums f32, results bf16. Heads of 128 values.
#pragma once

#include "ops/attention/attention_cuda.h"

namespace fovea {

// Rows of one tensor of one sequence that become values of eight bits.
struct EightRows {
  const bf16* from = nullptr;  // [rows][heads][128], rows `stride` values apart, multiples of 4
  int64_t stride = 0;
  int rows = 0;
  int heads = 0;
  const float* cos = nullptr;  // [rows][64]: the rotary embedding is applied; null: it was
  const float* sin = nullptr;
  bool spread = false;    // times a Hadamard matrix / sqrt(128): of queries and keys alike
  bool per_head = true;   // a scale for each head; otherwise one for all
  uint8_t* to = nullptr;  // [heads][to_rows][128], from row to_begin on
  int64_t to_rows = 0;
  int64_t to_begin = 0;
  float* scales = nullptr;  // [heads]: values are those of eight bits, times the scale
};
void round_rows_cuda(cudaStream_t stream, const EightRows& rows);
// The same of the values of attention, without rotation: to is [heads][128][to_rows], to_begin and
// to_rows multiples of 16. Row 16 n + 4 j + i lies at 16 n + 8 (i / 2) + 2 j + i % 2 read
// backwards: place 16 n + p holds row 16 n + eight_row_of(p). Places up to the next multiple of 16
// become 0.
void round_values_cuda(cudaStream_t stream, const EightRows& rows);
// Rows lie as the weights of a thread do that is to multiply them.
__host__ __device__ inline int eight_row_of(int place) {
  return place % 4 / 2 * 8 + place / 4 * 2 + place % 2;
}

struct EightSequence {
  int q_begin = 0;
  int q_count = 0;
  int first_key = 0;  // a multiple of 16
  int key_count = 0;
  int first_query = 0;
};
struct EightTensors {
  const uint8_t* q = nullptr;       // [heads][q_rows][128]
  const uint8_t* keys = nullptr;    // [kv_heads][key_rows][128]
  const uint8_t* values = nullptr;  // [kv_heads][128][key_rows]; no NaN, also where nothing is
  const float* scales = nullptr;    // [sequences][of heads' queries, of keys, of values]
  int64_t q_rows = 0;
  int64_t key_rows = 0;
};

// Whether the device has what it takes.
bool attention_eight_takes(const AttentionShape& shape, const AttentionWorkspace& workspace);
Status attention_eight_cuda(cudaStream_t stream, const AttentionShape& shape,
                            std::span<const EightSequence> sequences, const EightTensors& tensors,
                            bf16* out, int64_t out_stride, AttentionWorkspace& workspace);

}  // namespace fovea
