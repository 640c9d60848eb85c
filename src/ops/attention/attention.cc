// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention.h"

#include <array>

#include "base/buffer.h"
#include "base/check.h"
#include "base/per_thread.h"
#include "ops/attention/attention_job.h"

namespace fovea {
namespace {

AttentionJob make_job(const float* q, int64_t q_stride, int64_t queries, const PagedKeys& kv,
                      const AttentionParams& params) {
  FOVEA_CHECK(params.heads > 0 && kv.kv_heads > 0 && params.heads % kv.kv_heads == 0);
  FOVEA_CHECK(kv.head_dim % 4 == 0 && kv.head_dim > 0 && kv.head_dim <= kMaxHeadDim);
  FOVEA_CHECK(kv.page_tokens >= kv.size || kv.page_tokens % PagedKeys::step_of(kv.format) == 0);
  FOVEA_CHECK(kv.size > 0 && (!params.causal || params.first_query >= 0));
  return {.q = q,
          .q_stride = q_stride,
          .queries = queries,
          .kv = &kv,
          .params = &params,
          .group = params.heads / kv.kv_heads,
          .head_dim = kv.head_dim,
          .keys = kv.size};
}

}  // namespace

float* attention_scratch(ScratchUse use, size_t values) {
  static PerThread<std::array<Buffer<float>, 2>> memory;
  Buffer<float>& buffer = memory.here()[static_cast<size_t>(use)];
  if (buffer.size() < values) buffer = Buffer<float>(values);
  return buffer.data();
}

void attention(Threads& threads, const float* q, int64_t q_stride, int64_t queries,
               const PagedKeys& kv, const AttentionParams& params, float* out, int64_t out_stride) {
  if (queries <= 0) return;
  AttentionJob job = make_job(q, q_stride, queries, kv, params);
  job.out = out;
  job.out_stride = out_stride;
  if (attention_has_few_rows(job))
    attention_few_cpu(threads, job);
  else
    attention_tiles_cpu(threads, job);
}

void attention_mass(Threads& threads, const float* q, int64_t q_stride, int64_t queries,
                    const PagedKeys& kv, const AttentionParams& params, int64_t key_begin,
                    int64_t key_end, float* mass, const MassDetail& detail) {
  FOVEA_CHECK(0 <= key_begin && key_begin <= key_end && key_end <= kv.size);
  if (queries <= 0 || key_begin == key_end) return;
  const AttentionJob job = make_job(q, q_stride, queries, kv, params);
  attention_mass_cpu(threads, job, key_begin, key_end, mass, detail);
}

}  // namespace fovea
