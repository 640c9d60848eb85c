// SPDX-License-Identifier: Apache-2.0
// Attention to means of rows, in f64 and plain loops, with its gradients: the specification of
// hierarchical attention in both its forms, and what it is trained with.
//
//   out[i][h] = sum over levels l of weights[l] * sum over keys t of level l of p_lt * v_t,
//   p_lt = softmax over t of level l of (scale * q[i][h] . k_t + bias_t),
//
// where k_t and v_t are the means of neighbouring rows, or of one. Which keys a block of queries
// has is given: a choice has no gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention/sparse/chosen_keys.h"

namespace fovea {

struct MeanKey {
  int32_t first = 0;  // row
  int32_t count = 1;
  double bias = 0;
};

// The keys of each block of queries: [kv_heads][blocks][levels].
struct MeanKeySets {
  int levels = 1;
  std::vector<std::vector<MeanKey>> sets;
};

// What attention_to_chosen() sees, one level. Not for windows.
MeanKeySets mean_keys_of(const SparseAttention& given, const ChosenKeys& chosen);

// Rows are in the order of `rows`.
struct MeanAttention {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  double scale = 1;
  const RowBlocks* rows = nullptr;
  const MeanKeySets* keys = nullptr;
  std::vector<double> q;        // [rows][heads * head_dim]
  std::vector<double> k;        // [rows][kv_heads * head_dim]
  std::vector<double> v;        // [rows][kv_heads * head_dim]
  std::vector<double> weights;  // [levels]

  MeanAttention(const SparseAttention& given, const MeanKeySets& its_keys,
                std::span<const float> its_weights);
};

// [rows][heads * head_dim]; 0 for the queries of other blocks than these.
std::vector<double> attend_to_means(const MeanAttention& given, BlockRange of);

struct MeanGradients {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<double> weights;
};
// The gradients of sum(out * out_gradient), of all blocks.
MeanGradients attend_to_means_backward(const MeanAttention& given,
                                       const std::vector<double>& out_gradient);

}  // namespace fovea
