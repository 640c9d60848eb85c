// SPDX-License-Identifier: Apache-2.0
// Reading a prompt: what of it is in memory already, what the model makes of the rest, and what
// that says about where to look.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "language/decoder.h"

namespace fovea {

// What a prompt is read for.
struct ReadGoal {
  bool answer = true;      // logits follow
  bool couple = false;     // couple() follows
  bool attention = false;  // the trace shows what was attended to
  bool leave = false;      // the logits stay on the device
};

struct Reading {
  bool done = false;                          // false: it was stopped
  Buffer<float> logits;                       // after the last token, where an answer follows
  bool left_logits = false;                   // ... they stayed on the device, for its answer
  AttentionReadout attention;                 // of the text after the last image
  std::vector<std::vector<float>> gaze_rows;  // as SessionState's, of the tokens after those
  int64_t kept_tokens = 0;                    // of the prompt that were in memory before
  double ms = 0;
};

// Computes what the session does not hold yet of the prompt. Where no answer follows, the text
// after the last image goes through as many layers as coupling needs and leaves nothing behind.
Reading read_prompt(SessionState& state, const TokenPrompt& prompt, const AskOptions& options,
                    const ReadGoal& goal, const std::function<bool()>& keep_going);

// What the question has to do with each place of an image, by the model that has just read both: by
// its gaze head, or by how much the text attends to the glance, over the most of any place. On a
// grid that couple_map knows; empty for an image without a glance.
Map couple(const SessionState& state, const TokenPrompt& prompt, const Reading& reading, int image);

// How sure a model is: the probability of the most likely next token.
double confidence_of(std::span<const float> logits);

}  // namespace fovea
