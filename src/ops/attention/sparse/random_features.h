// SPDX-License-Identifier: Apache-2.0
// Attention without scores (Performer, "FAVOR+"): e^(q . k) is the mean of products of positive
// features of q and of k, so that keys and values are added up once, whatever sees them.
//
//   f_j(x) = e^(w_j . x - |x|^2 / 2),  x = sqrt(scale) q  or  sqrt(scale) k
//   out = sum_j f_j(q) (sum_t f_j(k_t) e^bias_t v_t) / sum_j f_j(q) (sum_t f_j(k_t) e^bias_t)
//
// The w_j are normal vectors, those of a group of head_dim of them at right angles to each other,
// each as long as a normal vector of its own. Time and memory grow with the rows, not their square;
// the error falls with the root of the number of features, and grows as e^|x|^2.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/sparse/chosen_keys.h"

namespace fovea {

// Where it is not said otherwise: head_dim log(head_dim), as its authors have it, for heads of 64.
inline constexpr int kRandomFeatures = 256;
inline constexpr int kFeatureBlock = 64;  // their number is a multiple of it

// [features][head_dim], the same for all calls.
std::vector<float> random_directions(int features, int head_dim);

// attention() of rows to themselves, by so many features. The output may be the queries.
void attend_by_features(Threads& threads, const SparseAttention& given, int features, float* out,
                        int64_t out_stride);
// Its specification, in f64, for some rows.
struct RowRange {
  int64_t first = 0;
  int64_t end = 0;
};
void attend_by_features_reference(const SparseAttention& given, int features, RowRange of,
                                  float* out, int64_t out_stride);

// What it works in.
int64_t feature_bytes(int kv_heads, int head_dim, int features);

}  // namespace fovea
