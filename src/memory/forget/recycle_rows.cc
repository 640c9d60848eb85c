// SPDX-License-Identifier: Apache-2.0
// Recycling: of the tokens that would go, the best become a few rows, by density peaks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "memory/forget/choices.h"
#include "memory/forget/row_distance.h"

namespace fovea {
namespace {

// Squared distances of the keys of some tokens, all heads: [tokens][tokens].
std::vector<double> distances(const ForgetScene& scene, const ForgetLayer& layer,
                              std::span<const int32_t> tokens) {
  const size_t count = tokens.size();
  std::vector<double> all(count * count);
  const auto dim = static_cast<size_t>(layer.keys.head_dim);
  const size_t width = static_cast<size_t>(layer.keys.kv_heads) * dim;
  std::vector<float> keys(count * width);
  for (size_t i = 0; i < count; ++i)
    for (int head = 0; head < layer.keys.kv_heads; ++head)
      scene.read_key(layer, head, tokens[i],
                     keys.data() + i * width + static_cast<size_t>(head) * dim);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j)
      all[i * count + j] = all[j * count + i] = squares_apart(
          keys.data() + i * width, 1, keys.data() + j * width, 1, static_cast<int64_t>(width));
  return all;
}

// The centres among `count` tokens: the greatest products of density and distance to what is
// denser.
std::vector<size_t> centres_of(const std::vector<double>& apart, size_t count, size_t centres) {
  const size_t near = std::min<size_t>(kDensityNeighbours, count - 1);
  std::vector<double> mean_near(count);  // small: dense
  std::vector<double> others;
  for (size_t i = 0; i < count; ++i) {
    others.clear();
    for (size_t j = 0; j < count; ++j)
      if (j != i) others.push_back(apart[i * count + j]);
    std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(near),
                      others.end());
    for (size_t k = 0; k < near; ++k) mean_near[i] += others[k] / static_cast<double>(near);
  }
  const double unit =
      std::accumulate(mean_near.begin(), mean_near.end(), 0.0) / static_cast<double>(count);
  std::vector<double> score(count);
  for (size_t i = 0; i < count; ++i) {
    double to_denser = std::numeric_limits<double>::infinity();
    double farthest = 0;
    for (size_t j = 0; j < count; ++j) {
      farthest = std::max(farthest, apart[i * count + j]);
      const bool denser = mean_near[j] != mean_near[i] ? mean_near[j] < mean_near[i] : j < i;
      if (denser) to_denser = std::min(to_denser, apart[i * count + j]);
    }
    const double density = unit > 0 ? std::exp(-mean_near[i] / unit) : 1;
    score[i] = density * std::sqrt(std::isinf(to_denser) ? farthest : to_denser);
  }
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return score[a] > score[b]; });
  order.resize(centres);
  return order;
}

}  // namespace

KeptRows recycle_rows(const ForgetScene& scene, const ForgetLayer& layer, int64_t rows) {
  const int64_t tokens = scene.tokens();
  int64_t recycled = std::min(static_cast<int64_t>(static_cast<double>(rows) * kRecycledShare),
                              kMostRecycledTokens / kTokensARecycledRow);
  recycled = std::min(recycled, tokens - rows);
  const int64_t whole = rows - recycled;
  const std::vector<int32_t> kept = greatest(layer.mass, whole);
  std::vector<int32_t> groups(static_cast<size_t>(tokens), KeptRows::kForgotten);
  for (const int32_t token : kept) groups[static_cast<size_t>(token)] = token;
  if (recycled == 0) return rows_of_groups(groups);

  std::vector<int32_t> best =
      greatest(layer.mass, std::min(tokens, whole + recycled * kTokensARecycledRow));
  std::erase_if(best, [&](int32_t token) { return groups[static_cast<size_t>(token)] >= 0; });
  const size_t count = best.size();
  const std::vector<double> apart = distances(scene, layer, best);
  const std::vector<size_t> centres = centres_of(apart, count, static_cast<size_t>(recycled));
  for (size_t i = 0; i < count; ++i) {
    size_t nearest = centres.front();
    for (const size_t centre : centres)
      if (i == centre || (i != nearest && apart[i * count + centre] < apart[i * count + nearest]))
        nearest = centre;
    groups[static_cast<size_t>(best[i])] = best[nearest];
  }
  return rows_of_groups(groups);
}

}  // namespace fovea
