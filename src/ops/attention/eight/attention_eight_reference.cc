// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "ops/attention/eight/attention_eight.h"
#include "ops/attention/eight/eight_bits.h"

namespace fovea {
namespace {

using Rows = std::vector<std::vector<double>>;  // [rows of all heads][head_dim]

// Row r is of head r % heads.
void round_rows(Rows& rows, int heads, bool spread, bool per_head) {
  std::vector<double> largest(static_cast<size_t>(heads));
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<double> x = rows[r];
    const size_t dim = x.size();
    for (size_t i = 0; spread && i < dim; ++i) {
      double sum = 0;
      for (size_t j = 0; j < dim; ++j) sum += std::popcount(i & j) % 2 == 0 ? x[j] : -x[j];
      rows[r][i] = sum / std::sqrt(static_cast<double>(dim));
    }
    double& most = largest[per_head ? r % heads : 0];
    for (const double value : rows[r]) most = std::max(most, std::abs(value));
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const double scale = largest[per_head ? r % heads : 0] / kLargestEight;
    for (double& value : rows[r])
      value = scale > 0 ? of_eight(to_eight(static_cast<float>(value / scale))) * scale : 0;
  }
}

}  // namespace

void attention_eight_reference(const float* q, int64_t q_stride, int64_t queries,
                               const PagedKeys& kv, const AttentionParams& params,
                               const EightOptions& options, float* out, int64_t out_stride) {
  attention_eight_reference(q, q_stride, queries, kv, params, options, {0, queries}, out,
                            out_stride);
}

void attention_eight_reference(const float* q, int64_t q_stride, int64_t queries,
                               const PagedKeys& kv, const AttentionParams& params,
                               const EightOptions& options, QueryRange of, float* out,
                               int64_t out_stride) {
  const int dim = kv.head_dim;
  Rows of_queries;
  Rows keys;
  Rows values;
  for (int64_t i = 0; i < queries; ++i)
    for (int head = 0; head < params.heads; ++head) {
      const float* from = q + i * q_stride + head * dim;
      of_queries.emplace_back(from, from + dim);
    }
  for (int64_t t = 0; t < kv.size; ++t)
    for (int head = 0; head < kv.kv_heads; ++head) {
      keys.emplace_back(kv.key(head, t), kv.key(head, t) + dim);
      values.emplace_back(kv.value(head, t), kv.value(head, t) + dim);
    }
  round_rows(of_queries, params.heads, options.spread, options.per_head);
  round_rows(keys, kv.kv_heads, options.spread, options.per_head);
  round_rows(values, kv.kv_heads, false, options.per_head);

  for (int64_t i = of.first; i < of.end; ++i)
    for (int head = 0; head < params.heads; ++head) {
      const int kv_head = head / (params.heads / kv.kv_heads);
      const int64_t seen = params.causal ? std::min(kv.size, params.first_query + i + 1) : kv.size;
      std::vector<double> scores(static_cast<size_t>(seen));
      for (int64_t t = 0; t < seen; ++t) {
        for (int d = 0; d < dim; ++d)
          scores[t] += of_queries[i * params.heads + head][d] * keys[t * kv.kv_heads + kv_head][d];
        scores[t] =
            scores[t] * params.scale + (params.key_bias != nullptr ? params.key_bias[t] : 0);
      }
      const double most = *std::max_element(scores.begin(), scores.end());
      std::vector<double> sums(static_cast<size_t>(dim));
      double total = 0;
      for (int64_t t = 0; t < seen; ++t) {
        const double weight = std::exp(scores[t] - most);
        total += weight;
        for (int d = 0; d < dim; ++d) sums[d] += weight * values[t * kv.kv_heads + kv_head][d];
      }
      for (int d = 0; d < dim; ++d)
        out[i * out_stride + head * dim + d] = static_cast<float>(sums[d] / total);
    }
}

}  // namespace fovea
