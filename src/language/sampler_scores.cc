// SPDX-License-Identifier: Apache-2.0
// Logits -> the scores that tokens are chosen by: penalties, biases, and what forbids tokens.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "language/sampler.h"

namespace fovea {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr size_t kWordBits = 64;

bool has_ban(std::span<const TokenBias> biases) {
  return std::any_of(biases.begin(), biases.end(),
                     [](const TokenBias& token) { return token.bias == kBanBias; });
}

}  // namespace

Result<std::span<const float>> Sampler::scores_of(std::span<const float> logits) {
  const bool penalises = options_.repetition_penalty != 1 && !context_.empty();
  if (!penalises && !shapes_) return logits;
  scores_.assign(logits.begin(), logits.end());
  if (penalises) penalise_context();
  if (shapes_) {
    add_penalties_and_biases(logits);
    if (Status status = forbid(); !status) return status.error();
  }
  return std::span<const float>(scores_);
}

void Sampler::penalise_context() {
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  for (const int id : context_) {
    float& score = scores_[static_cast<size_t>(id)];
    score = score < 0 ? score * penalty : score / penalty;
  }
}

// score = logit - (count * frequency + (count > 0) * presence) + bias
void Sampler::add_penalties_and_biases(std::span<const float> logits) {
  for (const int id : repeated_) {
    const auto at = static_cast<size_t>(id);
    scores_[at] -=
        static_cast<float>(counts_[at] * options_.frequency_penalty + options_.presence_penalty);
  }
  for (const TokenBias& token : options_.logit_bias)
    scores_[static_cast<size_t>(token.id)] += token.bias;
  // A penalty can make a huge logit infinite. From here on negative infinity means forbidden.
  constexpr float kMost = std::numeric_limits<float>::max();
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= -kMost) scores_[i] = std::max(scores_[i], -kMost);
}

// Step 3. An error where nothing is left.
Status Sampler::forbid() {
  for (const TokenBias& token : options_.logit_bias)
    if (token.bias == kBanBias) scores_[static_cast<size_t>(token.id)] = kForbidden;
  const size_t step = answer_.size() + 1;
  const bool cannot_end = step <= static_cast<size_t>(options_.least_tokens);
  if (cannot_end)
    for (const int id : end_ids_) scores_[static_cast<size_t>(id)] = kForbidden;
  if (options_.mask && !apply_mask())
    return bad_input(fmt::format(
        "choosing token {} of the answer: the mask allows none of the {} tokens; leave one bit set",
        step, vocab_size_));
  if (*std::max_element(scores_.begin(), scores_.end()) > kForbidden) return Done{};
  std::string by;
  const auto add = [&](bool used, const char* name) {
    if (used) by += (by.empty() ? "" : " and ") + std::string(name);
  };
  add(has_ban(options_.logit_bias), "logit_bias");
  add(cannot_end, "least_tokens");
  add(static_cast<bool>(options_.mask), "the mask");
  return bad_input(fmt::format(
      "choosing token {} of the answer: {} forbid every token that the model allows; allow one",
      step, by));
}

// False where it allows no token.
bool Sampler::apply_mask() {
  const auto vocab = static_cast<size_t>(vocab_size_);
  allowed_.assign((vocab + kWordBits - 1) / kWordBits, ~uint64_t{0});
  options_.mask(answer_, allowed_);
  if (vocab % kWordBits != 0) allowed_.back() &= (uint64_t{1} << vocab % kWordBits) - 1;
  bool any = false;
  for (size_t word = 0; word < allowed_.size(); ++word) {
    any = any || allowed_[word] != 0;
    const size_t first = word * kWordBits;
    for (uint64_t left = ~allowed_[word]; left != 0; left &= left - 1) {
      const size_t id = first + static_cast<size_t>(std::countr_zero(left));
      if (id >= vocab) break;
      scores_[id] = kForbidden;
    }
  }
  return any;
}

void Sampler::count_in_answer(int id) {
  answer_.push_back(id);
  if (counts_[static_cast<size_t>(id)]++ == 0) repeated_.push_back(id);
}

}  // namespace fovea
