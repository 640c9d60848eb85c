// SPDX-License-Identifier: Apache-2.0
// Logits -> the next token: greedy or by chance, with transformers' filters and a seed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/result.h"
#include "fovea/sampling.h"

namespace fovea {

struct SamplingOptions {
  double temperature = 0;         // 0: always the most likely token
  int top_k = 0;                  // only the k most likely, and what ties with the last; 0: all
  double top_p = 1;               // only the most likely that together reach this probability
  double min_p = 0;               // only those at least this part as likely as the likeliest
  double repetition_penalty = 1;  // above 1: tokens that were there before become less likely
  // As in OpenAI's API, -2 to 2: what is subtracted from the logit of a token that the answer holds
  // already, once for each time and once for all times. The prompt does not count.
  double frequency_penalty = 0;
  double presence_penalty = 0;
  std::vector<TokenBias> logit_bias;  // -100 (never drawn) to 100; each token once
  int least_tokens = 0;               // before so many tokens the answer cannot end
  TokenMask mask;                     // which tokens may come next; empty: all
  uint64_t seed = 0;
  int most_likely = 0;  // how many tokens to report with each choice
};

// By which the random numbers' state moves on with each token that is drawn (splitmix64).
inline constexpr uint64_t kRandomStep = 0x9E3779B97F4A7C15;

// The error names the option and its value.
Status check_sampling(const SamplingOptions& options);
// The same, and whether the model has the tokens that the options name.
Status check_sampling(const SamplingOptions& options, int vocab_size);

// Whether an option changes logits otherwise than the repetition penalty does: penalties of the
// answer, biases, the least number of tokens, a mask.
bool shapes_logits(const SamplingOptions& options);

// Whether a device can draw by these options: it knows none of those above, and reports no tokens.
bool device_can_draw(const SamplingOptions& options);

struct TokenChance {
  int id = 0;
  float logprob = 0;

  friend bool operator==(const TokenChance&, const TokenChance&) = default;
};

// Log-probabilities are those of the logits as the model gave them, before any option: a token that
// a mask or a bias forbids has the one that the model gave it, and counts in the sum.
struct SampledToken {
  int id = 0;
  float logprob = 0;
  std::vector<TokenChance> most_likely;  // best first; among equals the lower id
};

// Options apply in this order:
//   1. repetition penalty;
//   2. frequency and presence penalties, then biases;
//   3. what forbids tokens: biases of -100, end tokens before least_tokens, the mask. Nothing that
//      follows brings a forbidden token back;
//   4. temperature, top k, top p, min p, among the tokens that are left. Temperature 0 takes the
//      best of them.
// Without the options of 2 and 3 this is transformers' order. The same options, context and logits
// give the same tokens on every machine.
class Sampler {
 public:
  // `end_ids` are the tokens that end an answer, for least_tokens; those that are not in the
  // vocabulary mean nothing. Whether an answer goes on past an end token is not the sampler's
  // matter: least_tokens forbids them either way.
  static Result<Sampler> make(const SamplingOptions& options, int vocab_size,
                              std::span<const int> end_ids = {});

  // Tokens that were there before, for the repetition penalty: the prompt. What sample() chooses
  // is added by itself.
  void add_context(std::span<const int> ids);

  // An error where a logit is NaN or positive infinity, or where no token is left: none is above
  // negative infinity, or the options forbid all that are.
  Result<SampledToken> sample(std::span<const float> logits);

  // What sample() would draw from: the tokens that are left, by id, and their probabilities.
  Result<std::vector<TokenChance>> choices(std::span<const float> logits);

 private:
  struct Candidate {
    double weight = 0;  // its probability is weight / sum of all
    float score = 0;
    int id = 0;
  };

  Sampler(const SamplingOptions& options, int vocab_size, std::span<const int> end_ids);
  Status check_logits(std::span<const float> logits) const;
  // The logits after steps 1 to 3.
  Result<std::span<const float>> scores_of(std::span<const float> logits);
  void penalise_context();
  void add_penalties_and_biases(std::span<const float> logits);
  Status forbid();
  bool apply_mask();
  void count_in_answer(int id);
  float least_of_top_k(std::span<const float> scores);
  void find_candidates(std::span<const float> scores);
  void keep_top_p();
  int draw();

  SamplingOptions options_;
  int vocab_size_ = 0;
  uint64_t state_ = 0;
  std::vector<bool> is_in_context_;
  std::vector<int> context_;  // each once
  // Of the answer; kept only where an option of steps 2 and 3 is used.
  bool shapes_ = false;  // one is
  std::vector<int> end_ids_;
  std::vector<int> answer_;
  std::vector<int> counts_;    // of each token of the vocabulary
  std::vector<int> repeated_;  // tokens with a count, each once
  // Kept between calls.
  std::vector<float> scores_;
  std::vector<uint64_t> allowed_;
  std::vector<float> heap_;
  std::vector<Candidate> candidates_;  // by id
  std::vector<Candidate> ranked_;
};

}  // namespace fovea
