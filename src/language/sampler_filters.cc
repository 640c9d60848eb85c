// SPDX-License-Identifier: Apache-2.0
// Which tokens a sampler may draw: top k, top p and min p in one or two scans, without sorting the
// vocabulary.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "language/sampler.h"

namespace fovea {

// The k-th largest score: a heap of the k best so far, which few scores enter.
float Sampler::least_of_top_k(std::span<const float> scores) {
  const auto k = static_cast<size_t>(options_.top_k);
  if (k == 0 || k >= scores.size()) return -std::numeric_limits<float>::infinity();
  heap_.assign(scores.begin(), scores.begin() + static_cast<int64_t>(k));
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  for (const float score : scores.subspan(k)) {
    if (score <= heap_.front()) continue;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.back() = score;
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  return heap_.front();
}

void Sampler::find_candidates(std::span<const float> scores) {
  const float least = least_of_top_k(scores);
  const double most = *std::max_element(scores.begin(), scores.end());
  candidates_.clear();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] >= least)) continue;
    // Relative to the best, whose weight is 1 whatever the temperature; also where a penalty has
    // made it infinite.
    const double weight =
        scores[i] == most ? 1.0 : std::exp((scores[i] - most) / options_.temperature);
    if (weight > 0) candidates_.push_back({weight, scores[i], static_cast<int>(i)});
  }
  if (options_.top_p < 1) keep_top_p();
  if (options_.min_p > 0)
    std::erase_if(candidates_, [this](const Candidate& c) { return c.weight < options_.min_p; });
}

// Keeps each token for which the more likely ones have less than top_p together. The place of the
// cut is found as quickselect finds a median, by halves of the probability instead of the count.
void Sampler::keep_top_p() {
  const auto ranks_before = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  };
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  // The best stays even for 0.
  const double limit = std::max(options_.top_p * total, std::numeric_limits<double>::min());
  // All below this weight have less than half of 1 - top_p together, so that they go in any case.
  // In a real answer they are nearly the whole vocabulary.
  const double negligible =
      (1 - options_.top_p) * total / 2 / static_cast<double>(candidates_.size());
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < negligible; });
  ranked_ = candidates_;
  auto begin = ranked_.begin();  // what is before it stays, and weighs `before` < limit
  auto end = ranked_.end();      // what is from here on goes
  double before = 0;
  while (end - begin > 1) {
    std::iter_swap(begin, begin + (end - begin) / 2);
    const Candidate pivot = *begin;
    const auto middle =
        std::partition(begin + 1, end, [&](const Candidate& c) { return ranks_before(c, pivot); });
    double above = 0;
    for (auto it = begin + 1; it != middle; ++it) above += it->weight;
    std::iter_swap(begin, middle - 1);
    if (before + above >= limit) {
      end = middle - 1;
    } else {
      before += above + pivot.weight;
      begin = middle;
      if (before >= limit) end = begin;
    }
  }
  if (end == ranked_.end()) return;
  const Candidate last =
      *std::max_element(ranked_.begin(), end, ranks_before);  // the greatest is the last in rank
  std::erase_if(candidates_, [&](const Candidate& c) { return ranks_before(last, c); });
}

}  // namespace fovea
