// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/attention/sparse/mean_keys.h"

namespace fovea {
namespace {

double dot(const double* a, const double* b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// The keys of one level that a block of queries sees, by one kv head.
struct Level {
  const std::vector<MeanKey>* keys = nullptr;
  std::vector<double> k;  // [keys][head_dim]: means
  std::vector<double> v;
};

// Where a row of the keys' heads stands.
size_t row_at(const MeanAttention& given, int64_t row, int kv_head) {
  return static_cast<size_t>((row * given.kv_heads + kv_head) * given.head_dim);
}
size_t query_at(const MeanAttention& given, int64_t row, int head) {
  return static_cast<size_t>((row * given.heads + head) * given.head_dim);
}

std::vector<Level> levels_of(const MeanAttention& given, int kv_head, int block) {
  std::vector<Level> levels;
  for (int l = 0; l < given.keys->levels; ++l) {
    const auto set = static_cast<size_t>(
        (int64_t{kv_head} * given.rows->blocks() + block) * given.keys->levels + l);
    Level level{&given.keys->sets[set], {}, {}};
    for (const MeanKey& key : *level.keys)
      for (int d = 0; d < given.head_dim; ++d) {
        double k = 0;
        double v = 0;
        for (int32_t row = key.first; row < key.first + key.count; ++row) {
          k += given.k[row_at(given, row, kv_head) + static_cast<size_t>(d)] / key.count;
          v += given.v[row_at(given, row, kv_head) + static_cast<size_t>(d)] / key.count;
        }
        level.k.push_back(k);
        level.v.push_back(v);
      }
    levels.push_back(std::move(level));
  }
  return levels;
}

std::vector<double> softmax_of(const MeanAttention& given, const Level& level, const double* q) {
  std::vector<double> p;
  double most = -INFINITY;
  for (size_t t = 0; t < level.keys->size(); ++t) {
    const double* k = level.k.data() + t * static_cast<size_t>(given.head_dim);
    p.push_back(given.scale * dot(q, k, given.head_dim) + (*level.keys)[t].bias);
    most = std::max(most, p.back());
  }
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - most);
  for (double& value : p) value /= sum;
  return p;
}

// Calls body(row, head, levels) for each query, with the keys that it sees.
template <class Body>
void each_query(const MeanAttention& given, BlockRange of, const Body& body) {
  const int group = given.heads / given.kv_heads;
  for (int kv_head = 0; kv_head < given.kv_heads; ++kv_head)
    for (int block = of.first; block < of.end; ++block) {
      const std::vector<Level> levels = levels_of(given, kv_head, block);
      for (int64_t row = given.rows->first_row(block); row < given.rows->end_row(block); ++row)
        for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
          body(row, head, kv_head, levels);
    }
}

}  // namespace

std::vector<double> attend_to_means(const MeanAttention& given, BlockRange of) {
  std::vector<double> out(given.q.size());
  each_query(given, of, [&](int64_t row, int head, int /*kv_head*/, const std::vector<Level>& all) {
    const size_t at = query_at(given, row, head);
    for (size_t l = 0; l < all.size(); ++l) {
      const std::vector<double> p = softmax_of(given, all[l], given.q.data() + at);
      for (size_t t = 0; t < p.size(); ++t)
        for (int d = 0; d < given.head_dim; ++d)
          out[at + static_cast<size_t>(d)] +=
              given.weights[l] * p[t] * all[l].v[t * static_cast<size_t>(given.head_dim) + d];
    }
  });
  return out;
}

// With g = d(sum) / d(out) of a query, o_l what level l gives it, and a_t = g . v_t:
//   d weights[l] = g . o_l                 d v_t = weights[l] p_t g
//   d s_t = weights[l] p_t (a_t - g . o_l)  d q = scale sum_t d s_t k_t,  d k_t = scale d s_t q
// A mean passes what it gets to its rows in equal parts.
MeanGradients attend_to_means_backward(const MeanAttention& given,
                                       const std::vector<double>& out_gradient) {
  FOVEA_CHECK(out_gradient.size() == given.q.size());
  MeanGradients gradients{std::vector<double>(given.q.size()), std::vector<double>(given.k.size()),
                          std::vector<double>(given.v.size()),
                          std::vector<double>(given.weights.size())};
  const auto backward = [&](int64_t row, int head, int kv_head, const std::vector<Level>& all) {
    const size_t at = query_at(given, row, head);
    const double* q = given.q.data() + at;
    const double* g = out_gradient.data() + at;
    for (size_t l = 0; l < all.size(); ++l) {
      const std::vector<double> p = softmax_of(given, all[l], q);
      std::vector<double> along(p.size());  // g . v_t
      double whole = 0;                     // g . o_l
      for (size_t t = 0; t < p.size(); ++t) {
        along[t] =
            dot(g, all[l].v.data() + t * static_cast<size_t>(given.head_dim), given.head_dim);
        whole += p[t] * along[t];
      }
      gradients.weights[l] += whole;
      for (size_t t = 0; t < p.size(); ++t) {
        const double score = given.weights[l] * p[t] * (along[t] - whole) * given.scale;
        const MeanKey& key = (*all[l].keys)[t];
        for (int d = 0; d < given.head_dim; ++d) {
          const auto i = static_cast<size_t>(d);
          gradients.q[at + i] += score * all[l].k[t * static_cast<size_t>(given.head_dim) + i];
          for (int32_t r = key.first; r < key.first + key.count; ++r) {
            gradients.k[row_at(given, r, kv_head) + i] += score * q[d] / key.count;
            gradients.v[row_at(given, r, kv_head) + i] +=
                given.weights[l] * p[t] * g[d] / key.count;
          }
        }
      }
    }
  };
  each_query(given, {0, given.rows->blocks()}, backward);
  return gradients;
}

}  // namespace fovea
