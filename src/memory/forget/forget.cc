// SPDX-License-Identifier: Apache-2.0
#include "memory/forget/forget.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "memory/forget/choices.h"

namespace fovea {
namespace {

// Rounds parts to whole numbers of the sum `total`: down, and those that lose most by it up.
std::vector<int64_t> whole_parts(const std::vector<double>& parts, int64_t total) {
  std::vector<int64_t> whole;
  whole.reserve(parts.size());
  for (const double part : parts) whole.push_back(static_cast<int64_t>(part));
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return parts[a] - std::floor(parts[a]) > parts[b] - std::floor(parts[b]);
  });
  int64_t left = total - std::accumulate(whole.begin(), whole.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++whole[order[i]];
  return whole;
}

// How many tokens have to be kept for a layer's text to see most of what it attends to: the
// effective rank of what it gives them, 1 / sum of p^2.
double effective_rank(std::span<const float> mass) {
  double sum = 0;
  double squares = 0;
  for (const float part : mass) {
    sum += part;
    squares += double{part} * part;
  }
  return squares > 0 ? sum * sum / squares : 1;
}

double need_of(ForgetPolicy policy, const ForgetLayer& layer) {
  if (policy == ForgetPolicy::kVlCache) return layer.density;
  return policy == ForgetPolicy::kSparseVlm ? effective_rank(layer.mass) : 1;
}

std::vector<int32_t> range(int64_t begin, int64_t end) {
  std::vector<int32_t> tokens(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(begin));
  return tokens;
}

std::vector<int32_t> window(const ForgetScene& scene, int64_t rows) {
  std::vector<double> parts;
  int64_t begin = 0;
  for (const int64_t end : scene.image_ends) {
    parts.push_back(static_cast<double>(rows) * static_cast<double>(end - begin) /
                    static_cast<double>(scene.tokens()));
    begin = end;
  }
  const std::vector<int64_t> of_image = whole_parts(parts, rows);
  std::vector<int32_t> chosen;
  begin = 0;
  for (size_t i = 0; i < of_image.size(); ++i) {
    const int64_t end = scene.image_ends[i];
    const int64_t first = std::min(kWindowFirst, of_image[i] / 2);
    for (const auto& part : {range(begin, begin + first), range(end - (of_image[i] - first), end)})
      chosen.insert(chosen.end(), part.begin(), part.end());
    begin = end;
  }
  return chosen;
}

std::vector<int32_t> drawn(int64_t tokens, int64_t rows, uint64_t seed) {
  std::vector<int32_t> order = range(0, tokens);
  std::nth_element(order.begin(), order.begin() + rows, order.end(), [&](int32_t a, int32_t b) {
    const uint64_t score_a = random_score(seed, a);
    const uint64_t score_b = random_score(seed, b);
    return score_a != score_b ? score_a > score_b : a < b;
  });
  order.resize(static_cast<size_t>(rows));
  std::sort(order.begin(), order.end());
  return order;
}

KeptRows choose(const ForgetScene& scene, const ForgetLayer& layer, const ForgetSettings& settings,
                int64_t rows) {
  const int64_t tokens = scene.tokens();
  switch (settings.policy) {
    case ForgetPolicy::kVlCache:
      return rows_of_tokens(greatest(layer.mass, rows), tokens);
    case ForgetPolicy::kSparseVlm:
      return recycle_rows(scene, layer, rows);
    case ForgetPolicy::kMerge:
      return merge_rows(scene, layer, rows);
    case ForgetPolicy::kWindow:
      return rows_of_tokens(window(scene, rows), tokens);
    case ForgetPolicy::kOldest:
      return rows_of_tokens(range(tokens - rows, tokens), tokens);
    case ForgetPolicy::kRandom:
      return rows_of_tokens(drawn(tokens, rows, settings.seed), tokens);
  }
  return {};
}

}  // namespace

uint64_t random_score(uint64_t seed, int64_t token) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(token) + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::vector<double> layer_needs(std::span<const double> needs) {
  const double most = *std::max_element(needs.begin(), needs.end());
  std::vector<double> all;
  for (const double need : needs) all.push_back(most > 0 ? std::max(need, most * kLeastNeed) : 1);
  return all;
}

std::vector<int64_t> layer_budgets(std::span<const double> given, int64_t tokens, double keep) {
  const std::vector<double> needs = layer_needs(given);
  const auto layers = static_cast<int64_t>(needs.size());
  const double most = static_cast<double>(tokens);
  const int64_t total =
      std::clamp(std::llround(keep * most * static_cast<double>(layers)),
                 static_cast<long long>(layers), static_cast<long long>(layers * tokens));
  const double least = std::max(1.0, static_cast<double>(total) / static_cast<double>(layers) / 4);
  std::vector<double> parts(needs.size(), -1);  // of layers that are settled
  double left = static_cast<double>(total);
  for (bool settled = true; settled;) {
    settled = false;
    double free_needs = 0;
    int64_t free = 0;
    for (size_t i = 0; i < needs.size(); ++i)
      if (parts[i] < 0) free_needs += needs[i], ++free;
    const auto part_of = [&](size_t i) {
      return free_needs > 0 ? left * needs[i] / free_needs : left / static_cast<double>(free);
    };
    // Bounds on one side alone at a time: settling the other side may free or take what is left.
    double below = 0;
    double above = 0;
    for (size_t i = 0; i < needs.size(); ++i) {
      if (parts[i] >= 0) continue;
      below += std::max(0.0, least - part_of(i));
      above += std::max(0.0, part_of(i) - most);
    }
    std::vector<double> next = parts;
    double after = left;
    for (size_t i = 0; i < needs.size(); ++i) {
      if (parts[i] >= 0) continue;
      const double part = part_of(i);
      if (below >= above && part < least) next[i] = least;
      if (below < above && part > most) next[i] = most;
      if (next[i] < 0) continue;
      after -= next[i];
      settled = true;
    }
    if (!settled)
      for (size_t i = 0; i < needs.size(); ++i)
        if (parts[i] < 0) next[i] = part_of(i);
    parts = std::move(next);
    left = after;
  }
  return whole_parts(parts, total);
}

std::vector<KeptRows> choose_rows(Threads& threads, const ForgetScene& scene,
                                  const ForgetSettings& settings) {
  FOVEA_CHECK(scene.tokens() > 0 && !scene.layers.empty() &&
              scene.image_ends.back() == scene.tokens());
  std::vector<double> needs;
  for (const ForgetLayer& layer : scene.layers) needs.push_back(need_of(settings.policy, layer));
  const std::vector<int64_t> budgets = layer_budgets(needs, scene.tokens(), settings.keep);
  std::vector<KeptRows> kept(scene.layers.size());
  threads.for_each(static_cast<int64_t>(kept.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      kept[i] = choose(scene, scene.layers[i], settings, budgets[i]);
  });
  return kept;
}

}  // namespace fovea
