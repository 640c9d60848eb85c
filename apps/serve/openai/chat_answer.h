// SPDX-License-Identifier: Apache-2.0
// The engine's answers as OpenAI's chat API writes them, whole and in chunks.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "serve/openai/answer_head.h"

namespace fovea::serve {

// The body of an answer that comes whole.
std::string chat_answer_json(const AnswerHead& head, const ChatCall& call, const Answer& answer);

// Chunks with the role, the text, finish_reason of each answer, usage where it is wanted, and
// [DONE], which does not follow an error.
class ChatStream : public AnswerStream {
 public:
  ChatStream(AnswerHead head, const ChatCall& call);
  ~ChatStream() override;

  std::string begin() override;
  void token(int answer, const AnswerToken& token) override;
  std::string text(int answer, std::string_view piece) override;
  std::string finish(const Answer& answer) override;
  std::string error(const ApiError& error) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::serve
