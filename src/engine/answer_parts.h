// SPDX-License-Identifier: Apache-2.0
// What the spine of asking needs to turn options into each room's own terms.
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

std::vector<Turn> with_system(std::span<const Turn> turns, const std::string& system);

// What a person may have given wrong, before any work.
Status check_ask(std::span<const Turn> turns, const AskOptions& options);

// The glances of some images of the session, or their whole plans where no look follows.
Result<std::vector<Looked>> glance_at_images(SessionState& state, std::span<const int> images,
                                             const AskOptions& options,
                                             const std::function<bool()>& keep_going);

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

void report_looks(const SessionState& state, std::span<const Turn> turns, const TokenPrompt& prompt,
                  std::span<const int> images, std::vector<Looked> looks,
                  const AttentionReadout& attention, Trace& trace);

void finish_trace(const SessionState& state, const Stopwatch& watch, Trace& trace);

}  // namespace fovea
