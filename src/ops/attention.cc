// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include "base/check.h"

namespace fovea {

void attention(Threads& threads, const float* q, int64_t q_stride, int64_t queries,
               const KeyValues& kv, const AttentionParams& params, float* out, int64_t out_stride) {
  FOVEA_CHECK(params.heads % kv.kv_heads() == 0);
  threads.for_each(queries, 1, [&](int64_t begin, int64_t end) {
    AttentionParams part = params;
    part.first_query += begin;
    attention_reference(q + begin * q_stride, q_stride, end - begin, kv, part,
                        out + begin * out_stride, out_stride);
  });
}

void attention_mass(Threads& /*threads*/, const float* q, int64_t q_stride, int64_t queries,
                    const KeyValues& kv, const AttentionParams& params, int64_t key_begin,
                    int64_t key_end, float* mass) {
  attention_mass_reference(q, q_stride, queries, kv, params, key_begin, key_end, mass);
}

}  // namespace fovea
