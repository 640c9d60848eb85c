// SPDX-License-Identifier: Apache-2.0
// What a caller may say about single tokens of the vocabulary while an answer is drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fovea {

// What the tokens of a model stand for, for a mask.
struct TokenTexts {
  // Bytes by id, one for each score of the model; empty: none, or a special token (<|im_start|>).
  std::vector<std::string> tokens;
  std::vector<int> end_ids;  // tokens that end an answer
};

// A number that is added to the logit of one token.
struct TokenBias {
  int id = 0;
  float bias = 0;

  friend bool operator==(const TokenBias&, const TokenBias&) = default;
};

// A bias of exactly this much bans the token: it is never drawn.
inline constexpr float kBanBias = -100;

// Says which tokens may come next. `answer_ids` are the tokens of the answer so far. `allowed` has
// a bit for each token of the vocabulary: bit id % 64 of word id / 64. All bits are set when it is
// called; it clears those of tokens that must not be drawn, and must leave one at least. Bits past
// the vocabulary mean nothing. It may be called more than once for the same answer so far, and must
// allow the same tokens then.
using TokenMask = std::function<void(std::span<const int> answer_ids, std::span<uint64_t> allowed)>;

}  // namespace fovea
