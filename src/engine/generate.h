// SPDX-License-Identifier: Apache-2.0
// Logits -> an answer, token by token.
#pragma once

#include "base/buffer.h"
#include "base/stopwatch.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "language/sampler.h"

namespace fovea {

SamplingOptions sampling_of(const AskOptions& options);

// Draws tokens until the answer ends, from the logits after the prompt on. Fills the answer's text,
// tokens, finish and, in the trace, "first_token" and the count of tokens.
Status generate(SessionState& state, const TokenPrompt& prompt, const Buffer<float>& logits,
                const AskOptions& options, const OnText& on_text, Stopwatch& watch, Answer& answer);

}  // namespace fovea
