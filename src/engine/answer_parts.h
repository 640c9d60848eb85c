// SPDX-License-Identifier: Apache-2.0
// What the spine of asking needs to put options into each room's own terms.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "engine/prompt.h"
#include "engine/read.h"
#include "engine/session.h"
#include "engine/view.h"

namespace fovea {

std::vector<Message> with_system(std::span<const Message> messages, const std::string& system);

// What a person may have given wrong, before any work.
Status check_ask(const Model& model, std::span<const Message> messages, const AskOptions& options);
// Whether the texts are longer than any context: found before the template takes them apart, so
// that it is not blamed for them.
Status check_texts(const Model& model, const TextCount& text);

// Whether the most likely tokens that are wanted of each step can all be kept.
Status check_likely(const Model& model, const AskOptions& options);

// The plans of some images of the session, as far as no question is needed for them.
Result<std::vector<Looked>> plan_images(SessionState& state, std::span<const int> images,
                                        const AskOptions& options);

// Encodes what plan_images() planned.
Status show_images(SessionState& state, std::span<const int> images, const AskOptions& options,
                   const std::function<bool()>& keep_going, std::span<Looked> looks);

// What is known of a prompt before anything is encoded: an error where it cannot fit.
Status check_planned(const SessionState& state, std::span<const Message> messages,
                     std::span<const int> images, std::span<const Looked> looks,
                     const AskOptions& options, TextCount& text);

// Whether the device draws the tokens, so that logits need not leave it.
bool leave_logits(const Model& model, const AskOptions& options);

// A prompt longer than the context, or than memory has room for, is an error that says both.
Status check_context(const Model& model, const TokenPrompt& prompt, const AskOptions& options);

// Memory for an answer is taken as it grows beyond this.
inline constexpr int64_t kAnswerAtOnce = 1024;
// How many tokens an answer to the prompt may have.
int64_t room_for_answer(const Model& model, const TokenPrompt& prompt, const AskOptions& options);

// Puts what was read in `round` into the trace; true where no further look is to follow.
Result<bool> note_reading(const SessionState& state, const Reading& reading, int round, int rounds,
                          const AskOptions& options, std::span<Looked> looks, Trace& trace);

void report_looks(const SessionState& state, std::span<const Message> messages,
                  const TokenPrompt& prompt, std::span<const int> images, std::vector<Looked> looks,
                  const AttentionReadout& attention, Trace& trace);

// What each token of an answer attended to, `attended` of the keys that the prompt's readout has.
void report_attended(const TokenPrompt& prompt, std::span<const int> images,
                     std::span<const Look> looks, const AttentionReadout& of_prompt,
                     const std::vector<std::vector<float>>& attended, Answer& answer);

void finish_trace(const SessionState& state, const Stopwatch& watch, Trace& trace);

}  // namespace fovea
