// SPDX-License-Identifier: Apache-2.0
// Logits -> the next token: greedy or by chance, with transformers' filters and a seed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/result.h"

namespace fovea {

struct SamplingOptions {
  double temperature = 0;         // 0: always the most likely token
  int top_k = 0;                  // only the k most likely, and what ties with the last; 0: all
  double top_p = 1;               // only the most likely that together reach this probability
  double min_p = 0;               // only those at least this part as likely as the likeliest
  double repetition_penalty = 1;  // above 1: tokens that were there before become less likely
  uint64_t seed = 0;
  int most_likely = 0;  // how many tokens to report with each choice
};

// By which the random numbers' state moves on with each token that is drawn (splitmix64).
inline constexpr uint64_t kRandomStep = 0x9E3779B97F4A7C15;

// The error names the option and its value.
Status check_sampling(const SamplingOptions& options);

struct TokenChance {
  int id = 0;
  float logprob = 0;

  friend bool operator==(const TokenChance&, const TokenChance&) = default;
};

// Log-probabilities are those of the logits as the model gave them, before any option.
struct SampledToken {
  int id = 0;
  float logprob = 0;
  std::vector<TokenChance> most_likely;  // best first; among equals the lower id
};

// Options apply in transformers' order: repetition penalty, temperature, top k, top p, min p. The
// same options, context and logits give the same tokens on every machine.
class Sampler {
 public:
  static Result<Sampler> make(const SamplingOptions& options, int vocab_size);

  // Tokens that were there before, for the repetition penalty: the prompt. What sample() chooses
  // is added by itself.
  void add_context(std::span<const int> ids);

  // An error where a logit is NaN or positive infinity, or none is above negative infinity.
  Result<SampledToken> sample(std::span<const float> logits);

  // What sample() would draw from: the tokens that are left, by id, and their probabilities.
  Result<std::vector<TokenChance>> choices(std::span<const float> logits);

 private:
  struct Candidate {
    double weight = 0;  // its probability is weight / sum of all
    float score = 0;
    int id = 0;
  };

  Sampler(const SamplingOptions& options, int vocab_size);
  Status check_logits(std::span<const float> logits) const;
  std::span<const float> penalised(std::span<const float> logits);
  float least_of_top_k(std::span<const float> scores);
  void find_candidates(std::span<const float> scores);
  void keep_top_p();
  int draw();

  SamplingOptions options_;
  int vocab_size_ = 0;
  uint64_t state_ = 0;
  std::vector<bool> is_in_context_;
  std::vector<int> context_;  // each once
  // Kept between calls.
  std::vector<float> scores_;
  std::vector<float> heap_;
  std::vector<Candidate> candidates_;  // by id
  std::vector<Candidate> ranked_;
};

}  // namespace fovea
