// SPDX-License-Identifier: Apache-2.0
// Attention in eight bits a value: queries, keys and values are rounded to e4m3, each as a multiple
// of a scale. Scores stay the same where queries and keys are multiplied by one orthogonal matrix;
// a Hadamard matrix / sqrt(head_dim) spreads what stands out in a value over the whole head, whose
// rounding errors then are those of ordinary values.
#pragma once

#include "ops/attention/attention.h"

namespace fovea {

struct EightOptions {
  bool spread = true;    // by the Hadamard matrix; head_dim is a power of two
  bool per_head = true;  // a scale for each head of a tensor; otherwise one for the tensor
};

// What a tower attends by: heads that are no power of two wide are not spread.
EightOptions eight_options(int head_dim);

// x of 2^n values times the Hadamard matrix / sqrt(2^n), which is its own inverse.
void spread_head(float* x, int head_dim);

// [rows][heads][head_dim], rows `stride` values apart, become what eight bits keep of them.
void round_to_eight(float* x, int64_t stride, int64_t rows, int heads, int head_dim, bool spread,
                    bool per_head);

// As attention(), of what eight bits keep. Weights and sums are f32. The output may be the queries.
void attention_eight(Threads& threads, const float* q, int64_t q_stride, int64_t queries,
                     const PagedKeys& kv, const AttentionParams& params,
                     const EightOptions& options, float* out, int64_t out_stride);

// What it works in.
int64_t attention_eight_bytes(int64_t queries, int64_t keys, int64_t q_width, int64_t kv_width);

// Which of the queries are wanted; a scale is of all of them.
struct QueryRange {
  int64_t first = 0;
  int64_t end = 0;
};
// The specification, in f64.
void attention_eight_reference(const float* q, int64_t q_stride, int64_t queries,
                               const PagedKeys& kv, const AttentionParams& params,
                               const EightOptions& options, float* out, int64_t out_stride);
void attention_eight_reference(const float* q, int64_t q_stride, int64_t queries,
                               const PagedKeys& kv, const AttentionParams& params,
                               const EightOptions& options, QueryRange of, float* out,
                               int64_t out_stride);

}  // namespace fovea
