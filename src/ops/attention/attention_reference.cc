// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/attention/attention.h"

namespace fovea {
namespace {

// Keys and values as floats, whatever they are stored as.
class WideKeys {
 public:
  explicit WideKeys(const PagedKeys& kv)
      : size(kv.size), kv_heads(kv.kv_heads), head_dim(kv.head_dim) {
    const auto values = static_cast<size_t>(kv.size * kv.kv_heads * kv.head_dim);
    keys_.resize(values);
    values_.resize(values);
    for (int head = 0; head < kv.kv_heads; ++head)
      for (int64_t t = 0; t < kv.size; ++t) {
        widen_rows_reference(kv.format, kv.stored_key(head, t), 1, kv.head_dim,
                             keys_.data() + at(head, t));
        widen_rows_reference(kv.format, kv.stored_value(head, t), 1, kv.head_dim,
                             values_.data() + at(head, t));
      }
  }
  const float* key(int head, int64_t t) const { return keys_.data() + at(head, t); }
  const float* value(int head, int64_t t) const { return values_.data() + at(head, t); }

  const int64_t size;
  const int kv_heads;
  const int head_dim;

 private:
  size_t at(int head, int64_t t) const {
    return static_cast<size_t>((int64_t{head} * size + t) * head_dim);
  }

  std::vector<float> keys_;
  std::vector<float> values_;
};

// The softmax weights of one query and head over the keys it sees.
std::vector<double> weights_of(const float* q, int64_t query, int head, const WideKeys& kv,
                               const AttentionParams& params) {
  const int64_t keys = params.causal ? std::min(kv.size, params.first_query + query + 1) : kv.size;
  const int kv_head = head / (params.heads / kv.kv_heads);
  std::vector<double> weights(static_cast<size_t>(keys));
  for (int64_t t = 0; t < keys; ++t) {
    double dot = 0;
    for (int d = 0; d < kv.head_dim; ++d)
      dot += static_cast<double>(q[head * kv.head_dim + d]) * kv.key(kv_head, t)[d];
    weights[t] = dot * params.scale + (params.key_bias != nullptr ? params.key_bias[t] : 0);
  }
  const double most = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

void attention_reference(const float* q, int64_t q_stride, int64_t queries, const PagedKeys& stored,
                         const AttentionParams& params, float* out, int64_t out_stride) {
  const WideKeys kv(stored);
  for (int64_t i = 0; i < queries; ++i) {
    for (int head = 0; head < params.heads; ++head) {
      const auto weights = weights_of(q + i * q_stride, i, head, kv, params);
      const int kv_head = head / (params.heads / kv.kv_heads);
      for (int d = 0; d < kv.head_dim; ++d) {
        double sum = 0;
        for (size_t t = 0; t < weights.size(); ++t)
          sum += weights[t] * kv.value(kv_head, static_cast<int64_t>(t))[d];
        out[i * out_stride + head * kv.head_dim + d] = static_cast<float>(sum);
      }
    }
  }
}

void attention_mass_reference(const float* q, int64_t q_stride, int64_t queries,
                              const PagedKeys& stored, const AttentionParams& params,
                              int64_t key_begin, int64_t key_end, float* mass,
                              const MassDetail& detail) {
  const WideKeys kv(stored);
  std::vector<double> sums(static_cast<size_t>(key_end - key_begin));
  std::vector<double> standing_out(sums.size());
  for (int64_t i = 0; i < queries; ++i) {
    const double part = detail.query_parts != nullptr ? detail.query_parts[i] : 1;
    double given = 0;
    for (int head = 0; head < params.heads; ++head) {
      const auto weights = weights_of(q + i * q_stride, i, head, kv, params);
      const double least = *std::max_element(weights.begin(), weights.end()) * kStandsOut;
      const auto seen = std::min(key_end, static_cast<int64_t>(weights.size()));
      for (int64_t t = key_begin; t < seen; ++t) {
        sums[t - key_begin] += part * weights[t];
        standing_out[t - key_begin] += weights[t] >= least ? part : 0;
        given += part * weights[t];
      }
    }
    if (detail.given != nullptr) detail.given[i] = static_cast<float>(given / params.heads);
  }
  const double all = static_cast<double>(queries) * params.heads;
  for (size_t t = 0; t < sums.size(); ++t) {
    mass[t] = static_cast<float>(sums[t] / all);
    if (detail.standing_out != nullptr)
      detail.standing_out[t] = static_cast<float>(standing_out[t] / all);
  }
}

}  // namespace fovea
