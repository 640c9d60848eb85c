// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "ops/attention/sparse/chosen_keys.h"

namespace fovea {
namespace {

// A key that a query sees: its score, then its weight, and its values.
struct Seen {
  double weight = 0;
  const float* values = nullptr;
};

double dot(const float* a, const float* b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<Seen> seen_by(const SparseAttention& given, const ChosenKeys& chosen, int64_t query,
                          int block, int head) {
  const PagedKeys& kv = *given.kv;
  const int kv_head = head / (given.params->heads / kv.kv_heads);
  const PagedKeys pooled = given.pooled != nullptr ? given.pooled->view() : PagedKeys();
  const float* q = given.q + query * given.q_stride + int64_t{head} * kv.head_dim;
  const auto choice =
      static_cast<size_t>((chosen.per_head ? kv_head * given.rows->blocks() : 0) + block);
  std::vector<Seen> seen;
  for (int64_t i = chosen.begins[choice]; i < chosen.begins[choice + 1]; ++i) {
    const KeyRange& range = chosen.ranges[static_cast<size_t>(i)];
    FOVEA_CHECK(given.pooled != nullptr || !range.pooled);
    const PagedKeys& from = range.pooled ? pooled : kv;
    const float* bias = range.pooled ? given.pooled->biases() : given.params->key_bias;
    for (int32_t t = range.first; t < range.first + range.count; ++t) {
      const auto& places = given.rows->places;
      if (chosen.window.radius > 0 &&
          !chosen.window.sees(places[static_cast<size_t>(query)], places[static_cast<size_t>(t)]))
        continue;
      const double score = dot(q, from.key(kv_head, t), kv.head_dim) * given.params->scale;
      seen.push_back({score + (bias != nullptr ? bias[t] : 0), from.value(kv_head, t)});
    }
  }
  return seen;
}

}  // namespace

void attention_to_chosen_reference(const SparseAttention& given, const ChosenKeys& chosen,
                                   BlockRange of, float* out, int64_t out_stride) {
  const int head_dim = given.kv->head_dim;
  for (int block = of.first; block < of.end; ++block) {
    for (int64_t i = given.rows->first_row(block); i < given.rows->end_row(block); ++i) {
      for (int head = 0; head < given.params->heads; ++head) {
        std::vector<Seen> seen = seen_by(given, chosen, i, block, head);
        double most = -INFINITY;
        for (const Seen& key : seen) most = std::max(most, key.weight);
        double sum = 0;
        for (Seen& key : seen) sum += key.weight = std::exp(key.weight - most);
        for (int d = 0; d < head_dim; ++d) {
          double value = 0;
          for (const Seen& key : seen) value += key.weight / sum * key.values[d];
          out[i * out_stride + int64_t{head} * head_dim + d] = static_cast<float>(value);
        }
      }
    }
  }
}

}  // namespace fovea
