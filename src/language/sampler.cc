// SPDX-License-Identifier: Apache-2.0
#include "language/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace fovea {
namespace {

// splitmix64: every seed, 0 too, gives a sequence of its own.
uint64_t next_random(uint64_t& state) {
  state += kRandomStep;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

double next_unit(uint64_t& state) {  // in [0, 1)
  return static_cast<double>(next_random(state) >> 11) * 0x1p-53;
}

// In lanes, since one comparison that waits for the one before is most of a scan's time.
float most_of(std::span<const float> scores) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> most;
  most.fill(scores.front());
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      most[lane] = scores[i + lane] > most[lane] ? scores[i + lane] : most[lane];
  for (; i < scores.size(); ++i) most[0] = std::max(most[0], scores[i]);
  return *std::max_element(most.begin(), most.end());
}

int best_of(std::span<const float> scores) {
  return static_cast<int>(std::find(scores.begin(), scores.end(), most_of(scores)) -
                          scores.begin());
}

// log of the sum of exp(logit). What is e^40 times less likely than the best adds nothing to it in
// f32, even 100,000 times over.
double log_sum(std::span<const float> logits, float most) {
  constexpr float kNegligible = 40;
  double sum = 0;
  for (const float logit : logits)
    if (logit >= most - kNegligible) sum += std::exp(logit - most);
  return most + std::log(sum);
}

// The `count` best in order. Few tokens enter the list: the scan is one comparison for each.
std::vector<TokenChance> best_few(std::span<const float> logits, double log_total, int count) {
  std::vector<TokenChance> best;
  const auto limit = std::min(static_cast<size_t>(count), logits.size());
  for (size_t i = 0; i < logits.size() && limit > 0; ++i) {
    if (best.size() == limit && logits[i] <= best.back().logprob) continue;
    if (best.size() == limit) best.pop_back();
    const auto better = [](float logit, const TokenChance& other) { return logit > other.logprob; };
    const auto at = std::upper_bound(best.begin(), best.end(), logits[i], better);
    best.insert(at, {static_cast<int>(i), logits[i]});
  }
  for (TokenChance& chance : best) chance.logprob = static_cast<float>(chance.logprob - log_total);
  return best;
}

}  // namespace

Result<Sampler> Sampler::make(const SamplingOptions& options, int vocab_size,
                              std::span<const int> end_ids) {
  if (Status status = check_sampling(options, vocab_size); !status) return status.error();
  return Sampler(options, vocab_size, end_ids);
}

Sampler::Sampler(const SamplingOptions& options, int vocab_size, std::span<const int> end_ids)
    : options_(options),
      vocab_size_(vocab_size),
      state_(options.seed),
      is_in_context_(static_cast<size_t>(vocab_size)),
      shapes_(shapes_logits(options)) {
  if (!shapes_) return;
  counts_.resize(static_cast<size_t>(vocab_size));
  for (const int id : end_ids)
    if (id >= 0 && id < vocab_size) end_ids_.push_back(id);
}

void Sampler::add_context(std::span<const int> ids) {
  for (const int id : ids) {
    FOVEA_CHECK(id >= 0 && id < vocab_size_);
    if (is_in_context_[static_cast<size_t>(id)]) continue;
    is_in_context_[static_cast<size_t>(id)] = true;
    context_.push_back(id);
  }
}

Status Sampler::check_logits(std::span<const float> logits) const {
  FOVEA_CHECK(logits.size() == static_cast<size_t>(vocab_size_));
  constexpr float kMost = std::numeric_limits<float>::max();
  int bad = 0;
  int usable = 0;
  for (const float logit : logits) {  // without a branch, so that it takes microseconds
    bad |= static_cast<int>(!(logit <= kMost));
    usable |= static_cast<int>(logit >= -kMost);
  }
  if (bad != 0) {
    size_t at = 0;
    while (logits[at] <= kMost) ++at;
    return failed(
        fmt::format("choosing a token: the model's score of token {} is {}; its weights "
                    "may be damaged, or try weights of f32",
                    at, std::isnan(logits[at]) ? "not a number" : "infinite"));
  }
  if (usable == 0)
    return failed(
        fmt::format("choosing a token: the model excludes all {} tokens; its weights may "
                    "be damaged, or try weights of f32",
                    logits.size()));
  return Done{};
}

Result<SampledToken> Sampler::sample(std::span<const float> logits) {
  if (Status status = check_logits(logits); !status) return status.error();
  const auto scores = scores_of(logits);
  if (!scores) return scores.error();
  SampledToken token;
  if (options_.temperature == 0) {
    token.id = best_of(*scores);
  } else {
    find_candidates(*scores);
    token.id = draw();
  }
  const double log_total = log_sum(logits, most_of(logits));
  token.logprob = static_cast<float>(logits[static_cast<size_t>(token.id)] - log_total);
  token.most_likely = best_few(logits, log_total, options_.most_likely);
  add_context({&token.id, 1});
  if (shapes_) count_in_answer(token.id);
  return token;
}

Result<std::vector<TokenChance>> Sampler::choices(std::span<const float> logits) {
  if (Status status = check_logits(logits); !status) return status.error();
  const auto scores = scores_of(logits);
  if (!scores) return scores.error();
  if (options_.temperature == 0) return std::vector<TokenChance>{{best_of(*scores), 0}};
  find_candidates(*scores);
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  std::vector<TokenChance> choices;
  choices.reserve(candidates_.size());
  for (const Candidate& candidate : candidates_)
    choices.push_back({candidate.id, static_cast<float>(std::log(candidate.weight / total))});
  return choices;
}

int Sampler::draw() {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  double left = next_unit(state_) * total;
  for (const Candidate& candidate : candidates_) {
    if (left < candidate.weight) return candidate.id;
    left -= candidate.weight;
  }
  return candidates_.back().id;  // rounding used up the last bit
}

}  // namespace fovea
