// SPDX-License-Identifier: Apache-2.0
// Forgetting: between prefill and the first step of an answer, most keys of visual tokens go.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "fovea/answer.h"
#include "language/decoder.h"
#include "memory/forget/forget.h"

namespace fovea {

// What a person may have given wrong, and what the device does not have.
Status check_forget(const Model& model, const AskOptions& options);
// Of options that were checked.
ForgetSettings forget_of(const AskOptions& options);

// The visual tokens of a prompt from `from` on.
struct VisualPart {
  std::vector<int64_t> at;          // in the prompt
  std::vector<int64_t> image_ends;  // counted among them
  int64_t begin() const { return at.front(); }
  int64_t end() const { return at.back() + 1; }
};
VisualPart visual_from(const TokenPrompt& prompt, int64_t from);

// Those of them that lie side by side in an image, or one after the other.
std::vector<TokenLink> links_of(const TokenPrompt& prompt, const VisualPart& part);

// Which tokens of a prompt say what forgetting keeps: the text behind the last image, the last of
// it where it is long.
inline constexpr int64_t kMostAskingTokens = 64;
int64_t first_asking(const TokenPrompt& prompt, const VisualPart& part);

// Forgets keys of the visual tokens that were read since it was last done, by what `read` says of
// them; the usage says how many. False where there are none. The prompt's last token has to be read
// again, over what is left.
bool forget_keys(SessionState& state, const TokenPrompt& prompt, const KeyReadout& read,
                 Usage& usage);

}  // namespace fovea
