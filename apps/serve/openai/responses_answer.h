// SPDX-License-Identifier: Apache-2.0
// The engine's answers as OpenAI's Responses API writes them, whole and as
// events.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "serve/openai/answer_head.h"

namespace fovea::serve {

// The body of a response that comes whole.
std::string response_json(const AnswerHead& head, const ChatCall& call, const Answer& answer);

// response.created and in_progress; of each item its beginning, its deltas and
// its end; response.completed, or incomplete where it was cut. They are
// numbered.
class ResponseStream : public AnswerStream {
 public:
  ResponseStream(AnswerHead head, const ChatCall& call);
  ~ResponseStream() override;

  std::string begin() override;
  void token(int answer, const AnswerToken& token) override;
  std::string text(int answer, std::string_view piece) override;
  std::string finish(const Answer& answer) override;
  std::string error(const ApiError& error) override;
  std::string whole(const Answer& answer);  // the response, in place of all events

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::serve
