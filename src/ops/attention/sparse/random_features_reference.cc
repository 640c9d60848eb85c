// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/attention/sparse/random_features.h"

namespace fovea {
namespace {

// The logarithms of the features of a row.
std::vector<double> log_features(const std::vector<float>& directions, const float* x, int head_dim,
                                 double scale) {
  std::vector<double> logs;
  for (size_t at = 0; at < directions.size(); at += static_cast<size_t>(head_dim)) {
    double log = 0;
    for (int d = 0; d < head_dim; ++d)
      log += std::sqrt(scale) * directions[at + static_cast<size_t>(d)] * x[d] -
             scale * x[d] * x[d] / 2;
    logs.push_back(log);
  }
  return logs;
}

}  // namespace

void attend_by_features_reference(const SparseAttention& given, int features, RowRange of,
                                  float* out, int64_t out_stride) {
  const PagedKeys& kv = *given.kv;
  const AttentionParams& params = *given.params;
  const std::vector<float> directions = random_directions(features, kv.head_dim);
  for (int head = 0; head < params.heads; ++head) {
    const int kv_head = head / (params.heads / kv.kv_heads);
    std::vector<std::vector<double>> keys;
    double most = -INFINITY;  // what is taken off all keys, and off a query, falls out of the ratio
    for (int64_t t = 0; t < kv.size; ++t) {
      keys.push_back(log_features(directions, kv.key(kv_head, t), kv.head_dim, params.scale));
      for (double& log : keys.back()) {
        if (params.key_bias != nullptr) log += params.key_bias[t];
        most = std::max(most, log);
      }
    }
    for (std::vector<double>& key : keys)
      for (double& feature : key) feature = std::exp(feature - most);
    for (int64_t i = of.first; i < of.end; ++i) {
      const float* q = given.q + i * given.q_stride + int64_t{head} * kv.head_dim;
      std::vector<double> query = log_features(directions, q, kv.head_dim, params.scale);
      const double top = *std::max_element(query.begin(), query.end());
      for (double& feature : query) feature = std::exp(feature - top);
      std::vector<double> values(static_cast<size_t>(kv.head_dim));
      double sum = 0;
      for (int64_t t = 0; t < kv.size; ++t) {
        double weight = 0;
        for (size_t j = 0; j < query.size(); ++j)
          weight += query[j] * keys[static_cast<size_t>(t)][j];
        sum += weight;
        for (size_t d = 0; d < values.size(); ++d) values[d] += weight * kv.value(kv_head, t)[d];
      }
      for (size_t d = 0; d < values.size(); ++d)
        out[i * out_stride + int64_t{head} * kv.head_dim + static_cast<int64_t>(d)] =
            static_cast<float>(values[d] / sum);
    }
  }
}

}  // namespace fovea
