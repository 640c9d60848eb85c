// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/mean_keys.h"

#include <cmath>

#include "base/check.h"

namespace fovea {

MeanKeySets mean_keys_of(const SparseAttention& given, const ChosenKeys& chosen) {
  FOVEA_CHECK(chosen.window.radius == 0);
  const RowBlocks& rows = *given.rows;
  const float* bias = given.params->key_bias;
  const auto bias_of = [bias](int32_t row) { return bias != nullptr ? double{bias[row]} : 0.0; };
  MeanKeySets keys;
  for (int kv_head = 0; kv_head < given.kv->kv_heads; ++kv_head)
    for (int block = 0; block < rows.blocks(); ++block) {
      const auto choice =
          static_cast<size_t>((chosen.per_head ? kv_head * rows.blocks() : 0) + block);
      auto& set = keys.sets.emplace_back();
      for (int64_t i = chosen.begins[choice]; i < chosen.begins[choice + 1]; ++i) {
        const KeyRange& range = chosen.ranges[static_cast<size_t>(i)];
        for (int32_t t = range.first; t < range.first + range.count; ++t) {
          const int32_t first = range.pooled ? rows.group_begins[t] : t;
          const int32_t count = range.pooled ? rows.group_begins[t + 1] - first : 1;
          set.push_back({first, count, std::log(static_cast<double>(count)) + bias_of(first)});
        }
      }
    }
  return keys;
}

MeanAttention::MeanAttention(const SparseAttention& given, const MeanKeySets& its_keys,
                             std::span<const float> its_weights)
    : heads(given.params->heads),
      kv_heads(given.kv->kv_heads),
      head_dim(given.kv->head_dim),
      scale(given.params->scale),
      rows(given.rows),
      keys(&its_keys),
      weights(its_weights.begin(), its_weights.end()) {
  FOVEA_CHECK(static_cast<int>(weights.size()) == its_keys.levels);
  const int64_t width = int64_t{heads} * head_dim;
  for (int64_t row = 0; row < rows->rows(); ++row) {
    const float* query = given.q + row * given.q_stride;
    q.insert(q.end(), query, query + width);
    for (int head = 0; head < kv_heads; ++head) {
      const float* key = given.kv->key(head, row);
      const float* value = given.kv->value(head, row);
      k.insert(k.end(), key, key + head_dim);
      v.insert(v.end(), value, value + head_dim);
    }
  }
}

}  // namespace fovea
