// SPDX-License-Identifier: Apache-2.0
// What the spine of asking needs to turn options into each room's own terms.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "engine/view.h"

namespace fovea {

std::vector<Turn> with_system(std::span<const Turn> turns, const std::string& system);

// What a person may have given wrong, before any work.
Status check_ask(std::span<const Turn> turns, const AskOptions& options);

Result<Looked> look_at_image(const Model& model, std::vector<ImageView>& views, int image,
                             const AskOptions& options, const std::function<bool()>& keep_going);

// A prompt longer than the context, or than memory has room for, is an error that says both.
Status check_context(const Model& model, const TokenPrompt& prompt, const AskOptions& options);

// How many tokens an answer to the prompt may have.
int64_t room_for_answer(const Model& model, const TokenPrompt& prompt, const AskOptions& options);

void count_tokens(Usage& usage, const TokenPrompt& prompt, std::span<const ImageView> views);

// From the tokens after the last image to those of the images; nothing where it is not wanted.
AttentionReadout readout_of(const Model& model, const TokenPrompt& prompt, bool wanted);

// Computes what the session does not hold yet of the prompt, of which `kept` tokens it does. Gives
// the logits after the last token, or nothing where `keep_going` ended it.
Buffer<float> prefill(SessionState& state, const TokenPrompt& prompt, const AskOptions& options,
                      const std::function<bool()>& keep_going, AttentionReadout& readout,
                      int64_t& kept);

Look report_look(const SessionState& state, const TokenPrompt& prompt, int image, Looked looked,
                 const AttentionReadout& readout);

void finish_trace(const SessionState& state, const Stopwatch& watch, Trace& trace);

}  // namespace fovea
