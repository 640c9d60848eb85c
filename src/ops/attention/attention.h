// SPDX-License-Identifier: Apache-2.0
// Attention with grouped heads, without ever holding the queries x keys matrix.
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "ops/paged_keys.h"

namespace fovea {

struct AttentionParams {
  int heads = 0;    // of the queries; a multiple of the keys' heads, which they share in order
  float scale = 1;  // of q . k
  bool causal = false;
  int64_t first_query = 0;          // causal: query i sees the keys [0, first_query + i]
  const float* key_bias = nullptr;  // [keys], added to the scaled products; or null
};

// out[i][h] = sum over keys t of softmax_t(scale * q[i][h] . k[t] + key_bias[t]) * v[t].
// q and out are [queries][heads * head_dim], rows so many values apart. Each query sees a key.
void attention(Threads& threads, const float* q, int64_t q_stride, int64_t queries,
               const PagedKeys& kv, const AttentionParams& params, float* out, int64_t out_stride);

// A key stands out for a query and head that gives it at least this share of the greatest weight.
inline constexpr float kStandsOut = 0.01f;

// What else attention_mass() takes and gives; null: nothing.
struct MassDetail {
  // [queries]: how much each counts in all that follows and in the mass, in place of 1.
  const float* query_parts = nullptr;
  // [keys asked for]: the share of queries and heads that each stands out for.
  float* standing_out = nullptr;
  // [queries]: what each gives the keys asked for, averaged over heads.
  float* given = nullptr;
};

// How much the queries attend to each of the keys [key_begin, key_end): the softmax weights (over
// all the keys a query sees), averaged over queries and heads, into mass[key_end - key_begin].
void attention_mass(Threads& threads, const float* q, int64_t q_stride, int64_t queries,
                    const PagedKeys& kv, const AttentionParams& params, int64_t key_begin,
                    int64_t key_end, float* mass, const MassDetail& detail = {});

// The specifications, in f64.
void attention_reference(const float* q, int64_t q_stride, int64_t queries, const PagedKeys& kv,
                         const AttentionParams& params, float* out, int64_t out_stride);
void attention_mass_reference(const float* q, int64_t q_stride, int64_t queries,
                              const PagedKeys& kv, const AttentionParams& params, int64_t key_begin,
                              int64_t key_end, float* mass, const MassDetail& detail = {});

}  // namespace fovea
