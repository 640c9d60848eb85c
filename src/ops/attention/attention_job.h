// SPDX-License-Identifier: Apache-2.0
// What the fast forms of attention share: the job, and how its queries become rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/threads.h"
#include "ops/attention/attention.h"

namespace fovea {

// One call. The queries of all heads that share a kv head are that head's rows: row r is query
// r / group of head kv_head * group + r % group, so that keys and values are read once for them
// all.
struct AttentionJob {
  const float* q = nullptr;
  int64_t q_stride = 0;
  int64_t queries = 0;
  const PagedKeys* kv = nullptr;
  const AttentionParams* params = nullptr;
  float* out = nullptr;  // null: attention_mass
  int64_t out_stride = 0;
  int group = 1;
  int head_dim = 0;
  int64_t keys = 0;

  int64_t rows() const { return queries * group; }  // of one kv head
  const float* query(int kv_head, int64_t row) const {
    return q + row / group * q_stride + (kv_head * group + row % group) * head_dim;
  }
  float* output(int kv_head, int64_t row) const {
    return out + row / group * out_stride + (kv_head * group + row % group) * head_dim;
  }
  // Row r sees the keys [0, limit(r)); limits never fall from one row to the next.
  int64_t limit(int64_t row) const {
    return params->causal ? std::min(keys, params->first_query + row / group + 1) : keys;
  }
};

// The largest head: bounds what a thread keeps for itself.
constexpr int kMaxHeadDim = 256;

// Memory of the calling thread, kept from call to call; a second call for the same use may move it.
enum class ScratchUse { kTile, kShared };
float* attention_scratch(ScratchUse use, size_t values);

// Whether the work is so small that waking another thread costs more than it saves.
inline bool attention_is_small(const AttentionJob& job) {
  return static_cast<double>(job.rows()) * static_cast<double>(job.keys) * job.kv->kv_heads *
             job.head_dim <
         64 * 1024;
}

// The two ways: lanes hold rows, or, where rows are too few for that, parts of a head.
bool attention_has_few_rows(const AttentionJob& job);
void attention_tiles_cpu(Threads& threads, const AttentionJob& job);
void attention_few_cpu(Threads& threads, const AttentionJob& job);
void attention_mass_cpu(Threads& threads, const AttentionJob& job, int64_t key_begin,
                        int64_t key_end, float* mass, const MassDetail& detail);

}  // namespace fovea
