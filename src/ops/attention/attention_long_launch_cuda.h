// SPDX-License-Identifier: Apache-2.0
// What the launches of attention_long_kernel_cuda.h share on the host.
#pragma once

#include <algorithm>
#include <span>

#include "ops/attention/attention_long_kernel_cuda.h"

namespace fovea {

using LongSequences = std::span<const AttentionSequence>;

inline LongCall long_call(const AttentionShape& shape, bf16* out, int64_t out_stride,
                          AttentionWorkspace& workspace) {
  return {.out = out,
          .out_stride = out_stride,
          .taken = workspace.done(),
          .group = shape.heads / shape.kv_heads,
          .head_dim = shape.head_dim,
          .scale = shape.scale * kLog2E,
          .pages = {},
          .scales = nullptr,
          .plan = {.sequences = {},
                   .count = 0,
                   .heads = shape.heads,
                   .tiles = 0,
                   .order = LongOrder::kHeads}};
}

template <class Form>
void plan_long(LongPlan& plan, const AttentionShape& shape, LongSequences sequences,
               int multiprocessors) {
  plan.count = 0;
  for (const AttentionSequence& sequence : sequences)
    plan.sequences[plan.count++] = {
        .q_begin = sequence.q_begin,
        .queries = sequence.q_count,
        .keys = sequence.key_count,
        .first_query = shape.causal ? sequence.first_query : sequence.key_count,
        .first_key = 0,
        .first_tile = 0,
        .large = 0,
        .small = 0};
  choose_long_plan(plan, Form::kGroups, multiprocessors, shape.causal,
                   2.0 * (Form::kEight ? 1 : 2) * shape.kv_heads * shape.head_dim);
}

// `values` of each row, of query_rows rows at a time.
inline Status put_queries(TensorMap& to, const AttentionShape& shape, LongSequences sequences,
                          const bf16* q, int64_t q_stride, int values, int query_rows) {
  int rows = 0;
  for (const AttentionSequence& sequence : sequences)
    rows = std::max(rows, sequence.q_begin + sequence.q_count);
  return put_tensor_map(
      to, {.data = q,
           .size = {static_cast<uint64_t>(shape.head_dim), static_cast<uint64_t>(shape.heads),
                    static_cast<uint64_t>(rows)},
           .stride = {static_cast<uint64_t>(shape.head_dim), static_cast<uint64_t>(q_stride)},
           .box = {static_cast<uint32_t>(values), 1, static_cast<uint32_t>(query_rows)}});
}

}  // namespace fovea
