// SPDX-License-Identifier: Apache-2.0
// What happens to rows between products on a GPU: norms, embeddings, rotary embedding, memory.
//
// The residual stream is f32, what products read is bf16. Columns and strides are multiples of 4,
// pointers aligned to 16 bytes. Enqueues; nothing is allocated.
#pragma once

#include "device/cuda/bf16.h"
#include "device/cuda/runtime.h"

namespace fovea {

inline constexpr int kMaxNormCols = 8192;

// y[r][c] = (x[r][c] - mean_r) / sqrt(variance_r + eps) * weight[c] + bias[c]; x, y: [rows][cols],
// rows lie the strides apart.
struct NormJob {
  const float* x = nullptr;
  int64_t x_stride = 0;  // 0: cols
  int rows = 0;
  int cols = 0;  // up to kMaxNormCols
  const float* weight = nullptr;
  const float* bias = nullptr;  // layer_norm alone
  float eps = 0;
  bf16* y = nullptr;
  int64_t y_stride = 0;  // 0: cols
};
void layer_norm_cuda(cudaStream_t stream, const NormJob& job);
// y[r][c] = x[r][c] / sqrt(mean over c of x[r][c]^2 + eps) * weight[c].
void rms_norm_cuda(cudaStream_t stream, const NormJob& job);

// Visual features [count][cols]; one of the two.
struct FeatureRows {
  const float* floats = nullptr;
  const bf16* shorts = nullptr;
};

// What the rows of a run are: ids[r] >= 0 is a row of the table, ids[r] < 0 row ~ids[r] of the
// features. All rows of a batch of runs may stand in one list.
struct RunRows {
  const int* ids = nullptr;  // [rows], in device memory
  int rows = 0;
  int cols = 0;
  float* residual = nullptr;  // [rows][cols]
};
// residual[r] = its row of the table [.][cols] or of the features.
void embed_rows_cuda(cudaStream_t stream, const RunRows& run, const bf16* table,
                     const FeatureRows& features);
// Deepstack: residual[r] += its row of the features, where it has one.
void add_features_cuda(cudaStream_t stream, const RunRows& run, const FeatureRows& features);

// to[part][order[r]] = from[part][r]: rows of several parts, each put into another order. Columns
// are multiples of 8.
struct RowMove {
  const bf16* from = nullptr;  // [parts][rows][cols]
  bf16* to = nullptr;          // the same
  const int* order = nullptr;  // [rows], in device memory; none twice
  int parts = 1;
  int rows = 0;
  int cols = 0;
};
void move_rows_cuda(cudaStream_t stream, const RowMove& move);

// Where the key and the value of a row go: `position` of [kv_heads][capacity][head_dim].
struct RowPlace {
  bf16* keys = nullptr;
  bf16* values = nullptr;
  int capacity = 0;
  int position = 0;
};

// From the queries, keys and values of rows: queries and keys are normed where they have a norm,
// each head by itself (rms_norm), and rotated (rope.h); keys and values go to their places.
struct RotaryJob {
  const bf16* qkv = nullptr;  // [rows][(heads + 2 * kv_heads) * head_dim]
  int64_t stride = 0;         // values between rows; 0: as many as a row has
  int rows = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;               // a multiple of 8, up to 256
  const float* q_norm = nullptr;  // [head_dim], or null
  const float* k_norm = nullptr;  // [head_dim], or null
  float eps = 0;
  const float* cos = nullptr;  // [rows][head_dim / 2]
  const float* sin = nullptr;
  bf16* q = nullptr;                 // [rows][heads * head_dim]; may be qkv
  int64_t q_stride = 0;              // 0: heads * head_dim
  const RowPlace* places = nullptr;  // [rows], in device memory
  // Places are of this layer of [layers][kv_heads][capacity][head_dim].
  int layer = 0;
};
void rotate_heads_cuda(cudaStream_t stream, const RotaryJob& job);

}  // namespace fovea
