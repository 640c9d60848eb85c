// SPDX-License-Identifier: Apache-2.0
// Logits -> an answer, token by token.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/buffer.h"
#include "base/stopwatch.h"
#include "engine/look_again.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "language/sampler.h"

namespace fovea {

SamplingOptions sampling_of(const AskOptions& options, int answer = 0);

// What an answer is made from; all of it must outlive the Generator.
struct GeneratorInput {
  SessionState& state;
  const TokenPrompt& prompt;
  const AskOptions& options;
  int answer = 0;  // counts from 0, where several are asked for: each has a seed of its own
  const std::function<void(const AnswerToken& token)>& on_token;
  const std::function<bool(std::string_view piece)>& on_text;  // false stops the answer
  const std::function<bool()>& keep_going;
  Stopwatch& watch;
  const AttentionReadout& attention;  // of the prompt, where the trace shows what was attended to
};

// Draws tokens until the answer ends. Fills the answer's text, tokens, finish and, in the trace,
// "first_token" and the count of tokens. Nothing leaves that was computed with weights that have
// changed: that is an error, after the text that left before.
class Generator {
 public:
  // From the logits after the prompt on; none where the device has kept them.
  static Result<std::unique_ptr<Generator>> start(const GeneratorInput& input, Buffer<float> logits,
                                                  Answer& answer);
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  virtual ~Generator();

  // Draws the next token; false where the answer ends with it.
  Result<bool> draw();
  // What the decoder has to do before the next draw; null where the device does so by itself.
  virtual ForwardRequest* step() = 0;
  // What the next token is drawn from, where it is in the CPU's memory; else nothing.
  virtual std::span<const float> logits() const { return {}; }
  // In place of a step: reads these and the last token once more, and draws from what comes of it.
  virtual ForwardRequest* read(AddedTokens added) = 0;
  // What the device may draw together with other answers before the next draw; null: nothing.
  virtual DeviceAnswer* on_device() { return nullptr; }
  // AskOptions::answer_attention: of each token, how much was attended to each of the keys that the
  // prompt's readout has.
  std::vector<std::vector<float>> take_attended() { return std::move(attended_); }

 protected:
  explicit Generator(const GeneratorInput& input, Answer& answer);
  // Nothing where it was stopped.
  virtual Result<std::optional<SampledToken>> next() = 0;

  const GeneratorInput input_;
  std::vector<std::vector<float>> attended_;

 private:
  class Output;
  void finish();

  Answer& answer_;
  std::unique_ptr<Output> output_;
  int64_t most_tokens_ = 0;
};

}  // namespace fovea
