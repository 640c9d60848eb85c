// SPDX-License-Identifier: Apache-2.0
// Choosing the next token on a GPU: what sampler.h says, for several sequences at once, without the
// host. For the same logits, options and seed it is the token that Sampler chooses, unless rounding
// decides: there weights are doubles, here integers whose sums depend on no order.
#pragma once

#include <span>
#include <vector>

#include "device/cuda/stream.h"
#include "language/sampler.h"

namespace fovea {

// A sequence's options and its place in its random numbers, in device memory.
struct SamplerState {
  double temperature = 0;
  double top_p = 1;
  double min_p = 0;
  uint64_t random = 0;  // advanced by each draw
  int top_k = 0;
  float repetition_penalty = 1;
};
// Of options that check_sampling() accepts, after so many tokens were drawn.
SamplerState make_sampler_state(const SamplingOptions& options, int64_t drawn = 0);

enum class ChoiceFault : int {
  kNone = 0,
  kNotFinite = 1,  // a logit is NaN or positive infinity
  kAllExcluded = 2,
};

// Where a choice fails, nothing is drawn or added to the context.
struct alignas(16) ChosenToken {
  int id = 0;         // kNotFinite: the first of those tokens; a token of the vocabulary always
  float logprob = 0;  // of the logits as the model gave them; kNotFinite: the logit
  float best_logprob = 0;  // of the most likely token
  ChoiceFault fault = ChoiceFault::kNone;
};

// Which tokens were there before, a bit each: word id / 32, bit id % 32.
constexpr int context_words(int vocab) { return (vocab + 31) / 32; }
void add_context_bits(std::span<uint32_t> bits, std::span<const int> ids);

struct TokenChoiceJob {
  const float* logits = nullptr;  // [sequences][vocab], aligned to 16 bytes
  int sequences = 0;
  int vocab = 0;
  SamplerState* states = nullptr;    // [sequences]
  uint32_t* context_bits = nullptr;  // [sequences][context_words(vocab)]; what is chosen is added
                                     // null where no state has a penalty
  bool greedy_only = false;          // every state has temperature 0
  ChosenToken* out = nullptr;        // [sequences], in memory of the device or pinned
  int* ids = nullptr;                // [sequences], the ids again, as a pass reads them; or null
};

// What the blocks of a choice tell each other. One stream at a time.
class SamplerWorkspace {
 public:
  // For so many sequences and tokens at most.
  Status open(cudaStream_t stream, int sequences, int vocab);

 private:
  friend void choose_tokens_cuda(cudaStream_t, const TokenChoiceJob&, SamplerWorkspace&);
  int sequences_ = 0;
  int vocab_ = 0;
  DeviceMemory<unsigned char> memory_;
};

// Enqueues one kernel, or four where tokens are drawn. Nothing is allocated, so that a graph can
// hold it; the same bits come out on every run.
void choose_tokens_cuda(cudaStream_t stream, const TokenChoiceJob& job,
                        SamplerWorkspace& workspace);

}  // namespace fovea
