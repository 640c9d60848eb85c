// SPDX-License-Identifier: Apache-2.0
// What each policy keeps, by plain loops: nothing is sorted, nothing is kept from step to step.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "memory/forget/forget.h"

namespace fovea {
namespace {

constexpr int32_t kForgotten = KeptRows::kForgotten;

// Tokens by groups, named by any of their tokens -> rows, numbered by their first token.
KeptRows numbered(const std::vector<int32_t>& group_of) {
  KeptRows kept;
  for (size_t t = 0; t < group_of.size(); ++t) {
    int32_t row = kForgotten;
    for (size_t before = 0; before < t && group_of[t] >= 0; ++before)
      if (group_of[before] == group_of[t]) row = kept.row_of[before];
    if (group_of[t] >= 0 && row < 0) row = static_cast<int32_t>(kept.rows++);
    kept.row_of.push_back(row);
  }
  return kept;
}

// Those of which fewer than `rows` others come before.
template <class Before>
std::vector<int32_t> first_rows(int64_t tokens, int64_t rows, const Before& before) {
  std::vector<int32_t> group_of;
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t rank = 0;
    for (int64_t other = 0; other < tokens; ++other) rank += before(other, t) ? 1 : 0;
    group_of.push_back(rank < rows ? static_cast<int32_t>(t) : kForgotten);
  }
  return group_of;
}

std::vector<int32_t> by_mass(std::span<const float> mass, int64_t rows) {
  return first_rows(static_cast<int64_t>(mass.size()), rows, [&](int64_t a, int64_t b) {
    const float mass_a = mass[static_cast<size_t>(a)];
    const float mass_b = mass[static_cast<size_t>(b)];
    return mass_a > mass_b || (mass_a == mass_b && a < b);
  });
}

// Whole numbers of the sum `total`: one more for those that lose most by rounding down.
std::vector<int64_t> rounded(const std::vector<double>& parts, int64_t total) {
  std::vector<int64_t> whole;
  whole.reserve(parts.size());
  for (const double part : parts) whole.push_back(static_cast<int64_t>(part));
  while (std::accumulate(whole.begin(), whole.end(), int64_t{0}) < total) {
    size_t most = 0;
    for (size_t i = 1; i < parts.size(); ++i)
      if (parts[i] - static_cast<double>(whole[i]) > parts[most] - static_cast<double>(whole[most]))
        most = i;
    ++whole[most];
  }
  return whole;
}

std::vector<int32_t> by_window(const ForgetScene& scene, int64_t rows) {
  std::vector<double> parts;
  for (size_t i = 0; i < scene.image_ends.size(); ++i) {
    const int64_t begin = i == 0 ? 0 : scene.image_ends[i - 1];
    parts.push_back(static_cast<double>(rows * (scene.image_ends[i] - begin)) /
                    static_cast<double>(scene.tokens()));
  }
  const std::vector<int64_t> of_image = rounded(parts, rows);
  std::vector<int32_t> group_of;
  for (size_t i = 0; i < of_image.size(); ++i) {
    const int64_t begin = i == 0 ? 0 : scene.image_ends[i - 1];
    const int64_t end = scene.image_ends[i];
    const int64_t first = std::min(kWindowFirst, of_image[i] / 2);
    for (int64_t t = begin; t < end; ++t)
      group_of.push_back(t < begin + first || t >= end - of_image[i] + first
                             ? static_cast<int32_t>(t)
                             : kForgotten);
  }
  return group_of;
}

// Keys and values of a token, each over their mean square of all tokens.
std::vector<std::vector<double>> features_of(const ForgetScene& scene, const ForgetLayer& layer,
                                             bool values) {
  std::vector<std::vector<double>> features(static_cast<size_t>(scene.tokens()));
  for (const bool value : {false, true}) {
    if (value && !values) break;
    double squares = 0;
    const auto row_of = [&](int head, int64_t t) {
      std::vector<float> row(static_cast<size_t>(layer.keys.head_dim));
      if (value)
        scene.read_value(layer, head, t, row.data());
      else
        scene.read_key(layer, head, t, row.data());
      return row;
    };
    for (int64_t t = 0; t < scene.tokens(); ++t)
      for (int head = 0; head < layer.keys.kv_heads; ++head)
        for (const float one : row_of(head, t)) squares += std::pow(one, 2);
    const double scale = !values ? 1 : squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (int64_t t = 0; t < scene.tokens(); ++t)
      for (int head = 0; head < layer.keys.kv_heads; ++head)
        for (const float one : row_of(head, t))
          features[static_cast<size_t>(t)].push_back(scale * one);
  }
  return features;
}

// What it costs to make one of the groups a and b.
double union_cost(const std::vector<std::vector<double>>& features,
                  const std::vector<int32_t>& group_of, int32_t a, int32_t b) {
  const auto size_a = static_cast<double>(std::count(group_of.begin(), group_of.end(), a));
  const auto size_b = static_cast<double>(std::count(group_of.begin(), group_of.end(), b));
  double distance = 0;
  for (size_t i = 0; i < features.front().size(); ++i) {
    double mean_a = 0;
    double mean_b = 0;
    for (size_t t = 0; t < group_of.size(); ++t) {
      if (group_of[t] == a) mean_a += features[t][i] / size_a;
      if (group_of[t] == b) mean_b += features[t][i] / size_b;
    }
    distance += (mean_a - mean_b) * (mean_a - mean_b);
  }
  return distance * size_a * size_b / (size_a + size_b);
}

std::vector<int32_t> by_merging(const ForgetScene& scene, const ForgetLayer& layer, int64_t rows) {
  const auto features = features_of(scene, layer, true);
  std::vector<int32_t> group_of(features.size());
  std::iota(group_of.begin(), group_of.end(), 0);
  for (int64_t left = scene.tokens(); left > rows; --left) {
    double least = -1;
    TokenLink cheapest;
    for (const TokenLink& link : scene.links) {
      const int32_t a = group_of[static_cast<size_t>(link.a)];
      const int32_t b = group_of[static_cast<size_t>(link.b)];
      if (a == b) continue;
      const double cost = union_cost(features, group_of, a, b);
      if (least >= 0 && cost >= least) continue;
      least = cost;
      cheapest = {std::min(a, b), std::max(a, b)};
    }
    if (least < 0) break;  // nothing is linked any more
    std::replace(group_of.begin(), group_of.end(), cheapest.b, cheapest.a);
  }
  return group_of;
}

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// The mean squared distance of token i to the nearest others.
double mean_of_nearest(const std::vector<std::vector<double>>& keys, size_t i) {
  std::vector<double> apart;
  for (size_t j = 0; j < keys.size(); ++j)
    if (j != i) apart.push_back(squared_distance(keys[i], keys[j]));
  std::sort(apart.begin(), apart.end());
  apart.resize(std::min<size_t>(apart.size(), kDensityNeighbours));
  double sum = 0;
  for (const double one : apart) sum += one / static_cast<double>(apart.size());
  return sum;
}

std::vector<int32_t> by_recycling(const ForgetScene& scene, const ForgetLayer& layer,
                                  int64_t rows) {
  const auto recycled =
      std::min({static_cast<int64_t>(static_cast<double>(rows) * kRecycledShare),
                kMostRecycledTokens / kTokensARecycledRow, scene.tokens() - rows});
  std::vector<int32_t> group_of = by_mass(layer.mass, rows - recycled);
  if (recycled == 0) return group_of;
  const std::vector<int32_t> wide = by_mass(
      layer.mass, std::min(scene.tokens(), rows - recycled + recycled * kTokensARecycledRow));
  const auto features = features_of(scene, layer, false);
  std::vector<int32_t> tokens;
  std::vector<std::vector<double>> keys;
  for (size_t t = 0; t < wide.size(); ++t) {
    if (wide[t] < 0 || group_of[t] >= 0) continue;
    tokens.push_back(static_cast<int32_t>(t));
    keys.push_back(features[t]);
  }
  std::vector<double> near;
  near.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) near.push_back(mean_of_nearest(keys, i));
  const double unit =
      std::accumulate(near.begin(), near.end(), 0.0) / static_cast<double>(near.size());
  std::vector<double> score;
  for (size_t i = 0; i < keys.size(); ++i) {
    double to_denser = -1;
    double farthest = 0;
    for (size_t j = 0; j < keys.size(); ++j) {
      const double apart = squared_distance(keys[i], keys[j]);
      farthest = std::max(farthest, apart);
      const bool denser = near[j] < near[i] || (near[j] == near[i] && j < i);
      if (denser && (to_denser < 0 || apart < to_denser)) to_denser = apart;
    }
    score.push_back((unit > 0 ? std::exp(-near[i] / unit) : 1) *
                    std::sqrt(to_denser < 0 ? farthest : to_denser));
  }
  const auto count = static_cast<int64_t>(keys.size());
  const auto centres = first_rows(count, recycled, [&](int64_t a, int64_t b) {
    const double score_a = score[static_cast<size_t>(a)];
    const double score_b = score[static_cast<size_t>(b)];
    return score_a > score_b || (score_a == score_b && a < b);
  });
  for (size_t i = 0; i < keys.size(); ++i) {
    size_t nearest = i;
    for (size_t j = 0; j < keys.size() && centres[i] < 0; ++j)
      if (centres[j] >= 0 && (nearest == i || squared_distance(keys[i], keys[j]) <
                                                  squared_distance(keys[i], keys[nearest])))
        nearest = j;
    group_of[static_cast<size_t>(tokens[i])] = tokens[nearest];
  }
  return group_of;
}

double need_of(ForgetPolicy policy, const ForgetLayer& layer) {
  if (policy == ForgetPolicy::kVlCache) return layer.density;
  if (policy != ForgetPolicy::kSparseVlm) return 1;
  double sum = 0;
  double squares = 0;
  for (const float mass : layer.mass) sum += mass, squares += double{mass} * mass;
  return squares > 0 ? sum * sum / squares : 1;
}

}  // namespace

// By bisection: the factor of all needs with which the parts, each within its bounds, have the sum.
std::vector<int64_t> layer_budgets_reference(std::span<const double> given, int64_t tokens,
                                             double keep) {
  const std::vector<double> needs = layer_needs(given);
  const auto layers = static_cast<double>(needs.size());
  const double total = std::clamp(std::round(keep * static_cast<double>(tokens) * layers), layers,
                                  layers * static_cast<double>(tokens));
  const double least = std::max(1.0, total / layers / 4);
  std::vector<double> parts(needs.size());
  double low = 0;
  double high = 1e30;
  for (int step = 0; step < 2000; ++step) {
    const double factor = (low + high) / 2;
    for (size_t i = 0; i < needs.size(); ++i)
      parts[i] = std::clamp(factor * needs[i], least, static_cast<double>(tokens));
    (std::accumulate(parts.begin(), parts.end(), 0.0) < total ? low : high) = factor;
  }
  return rounded(parts, static_cast<int64_t>(total));
}

std::vector<KeptRows> choose_rows_reference(const ForgetScene& scene,
                                            const ForgetSettings& settings) {
  std::vector<double> needs;
  for (const ForgetLayer& layer : scene.layers) needs.push_back(need_of(settings.policy, layer));
  const auto budgets = layer_budgets_reference(needs, scene.tokens(), settings.keep);
  const int64_t tokens = scene.tokens();
  std::vector<KeptRows> kept;
  for (size_t i = 0; i < scene.layers.size(); ++i) {
    const ForgetLayer& layer = scene.layers[i];
    const int64_t rows = budgets[i];
    const auto newer = [](int64_t a, int64_t b) { return a > b; };
    const auto luckier = [&](int64_t a, int64_t b) {
      return random_score(settings.seed, a) > random_score(settings.seed, b);
    };
    const ForgetPolicy policy = settings.policy;
    kept.push_back(numbered(policy == ForgetPolicy::kVlCache     ? by_mass(layer.mass, rows)
                            : policy == ForgetPolicy::kSparseVlm ? by_recycling(scene, layer, rows)
                            : policy == ForgetPolicy::kMerge     ? by_merging(scene, layer, rows)
                            : policy == ForgetPolicy::kWindow    ? by_window(scene, rows)
                            : policy == ForgetPolicy::kOldest    ? first_rows(tokens, rows, newer)
                                                              : first_rows(tokens, rows, luckier)));
  }
  return kept;
}

}  // namespace fovea
