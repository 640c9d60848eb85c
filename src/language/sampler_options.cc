// SPDX-License-Identifier: Apache-2.0
// Which options a sampler takes, and which of them a device can draw by.
#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

#include "language/sampler.h"

namespace fovea {
namespace {

template <typename Number>
Error refuse(const char* name, Number value, const char* allowed) {
  return bad_input(fmt::format("{} is {}; it must be {}", name, value, allowed));
}

Status check_biases(const std::vector<TokenBias>& biases) {
  std::unordered_set<int> seen;
  for (const auto& [id, bias] : biases) {
    if (!(bias >= kBanBias && bias <= -kBanBias))
      return bad_input(fmt::format(
          "logit_bias of token {} is {}; it must be from -100 (never drawn) to 100", id, bias));
    if (!seen.insert(id).second)
      return bad_input(fmt::format("logit_bias names token {} twice; give one value", id));
  }
  return Done{};
}

}  // namespace

// Comparisons are such that NaN is refused too.
Status check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    return refuse("temperature", options.temperature,
                  "0 (always the most likely token) or a positive number");
  if (options.top_k < 0) return refuse("top_k", options.top_k, "0 (all tokens) or more");
  if (!(options.top_p >= 0 && options.top_p <= 1))
    return refuse("top_p", options.top_p, "between 0 and 1 (all tokens)");
  if (!(options.min_p >= 0 && options.min_p <= 1))
    return refuse("min_p", options.min_p, "between 0 (all tokens) and 1");
  if (!(options.repetition_penalty > 0) || std::isinf(options.repetition_penalty))
    return refuse("repetition_penalty", options.repetition_penalty,
                  "a positive number; 1 changes nothing");
  if (!(options.frequency_penalty >= -2 && options.frequency_penalty <= 2))
    return refuse("frequency_penalty", options.frequency_penalty,
                  "from -2 to 2; 0 changes nothing");
  if (!(options.presence_penalty >= -2 && options.presence_penalty <= 2))
    return refuse("presence_penalty", options.presence_penalty, "from -2 to 2; 0 changes nothing");
  if (options.least_tokens < 0) return refuse("least_tokens", options.least_tokens, "0 or more");
  if (options.most_likely < 0) return refuse("most_likely", options.most_likely, "0 or more");
  return check_biases(options.logit_bias);
}

Status check_sampling(const SamplingOptions& options, int vocab_size) {
  if (Status status = check_sampling(options); !status) return status;
  for (const TokenBias& token : options.logit_bias)
    if (token.id < 0 || token.id >= vocab_size)
      return bad_input(fmt::format("logit_bias names token {}, but the model has tokens 0 to {}",
                                   token.id, vocab_size - 1));
  return Done{};
}

bool shapes_logits(const SamplingOptions& options) {
  return options.frequency_penalty != 0 || options.presence_penalty != 0 ||
         !options.logit_bias.empty() || options.least_tokens > 0 || options.mask;
}

bool device_can_draw(const SamplingOptions& options) {
  return options.most_likely == 0 && !shapes_logits(options);
}

}  // namespace fovea
