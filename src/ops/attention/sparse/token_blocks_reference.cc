// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/attention/sparse/token_blocks.h"

namespace fovea {
namespace {

double dot(const float* a, const float* b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// The largest product of a head's query and the mean key of a block, of the heads that share it.
double score_of(const TokenAttention& given, int64_t query, int kv_head, int block) {
  const PagedKeys& kv = *given.kv;
  const int sharing = given.params->heads / kv.kv_heads;
  double most = -INFINITY;
  for (int head = kv_head * sharing; head < (kv_head + 1) * sharing; ++head) {
    const float* q = given.q + query * given.q_stride + int64_t{head} * kv.head_dim;
    double sum = 0;
    for (int64_t t = 0; t < kTokenBlock; ++t)
      sum += dot(q, kv.key(kv_head, int64_t{block} * kTokenBlock + t), kv.head_dim);
    most = std::max(most, sum / kTokenBlock);
  }
  return most;
}

std::vector<int64_t> keys_of(const TokenAttention& given, const SparseSettings& settings,
                             int64_t query, int kv_head) {
  const int64_t position = given.params->first_query + query;
  std::vector<int64_t> keys;
  if (settings.kind == AttentionKind::kDense || settings.kind == AttentionKind::kPrefix) {
    const int64_t end = settings.kind == AttentionKind::kDense
                            ? position + 1
                            : prefix_limit(given.images, position);
    for (int64_t t = 0; t < end; ++t) keys.push_back(t);
    return keys;
  }
  const auto own = static_cast<int>(position / kTokenBlock);
  SeenBlocks seen = seen_blocks(settings, given.images, own);
  std::stable_sort(seen.candidates.begin(), seen.candidates.end(), [&](int a, int b) {
    return score_of(given, query, kv_head, a) > score_of(given, query, kv_head, b);
  });
  std::vector<int> blocks = seen.always;
  blocks.insert(blocks.end(), seen.candidates.begin(), seen.candidates.begin() + seen.count);
  for (const int block : blocks)
    for (int64_t t = 0; t < kTokenBlock; ++t) keys.push_back(int64_t{block} * kTokenBlock + t);
  for (int64_t t = int64_t{own} * kTokenBlock; t <= position; ++t) keys.push_back(t);
  return keys;
}

}  // namespace

void attend_to_tokens_reference(const TokenAttention& given, const SparseSettings& settings,
                                float* out, int64_t out_stride) {
  const PagedKeys& kv = *given.kv;
  const int sharing = given.params->heads / kv.kv_heads;
  for (int64_t query = 0; query < given.queries; ++query)
    for (int head = 0; head < given.params->heads; ++head) {
      const int kv_head = head / sharing;
      const float* q = given.q + query * given.q_stride + int64_t{head} * kv.head_dim;
      const std::vector<int64_t> keys = keys_of(given, settings, query, kv_head);
      std::vector<double> weights;
      weights.reserve(keys.size());
      for (const int64_t t : keys)
        weights.push_back(dot(q, kv.key(kv_head, t), kv.head_dim) * given.params->scale);
      const double most = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - most);
      for (int d = 0; d < kv.head_dim; ++d) {
        double value = 0;
        for (size_t i = 0; i < keys.size(); ++i)
          value += weights[i] / sum * kv.value(kv_head, keys[i])[d];
        out[query * out_stride + int64_t{head} * kv.head_dim + d] = static_cast<float>(value);
      }
    }
}

}  // namespace fovea
