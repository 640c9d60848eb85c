// SPDX-License-Identifier: Apache-2.0
// What the answers of both of OpenAI's APIs are written from.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "fovea/answer.h"
#include "serve/api_error.h"
#include "serve/openai/chat_request.h"

namespace fovea::serve {

// What all chunks of an answer share.
struct AnswerHead {
  std::string id;       // "chatcmpl-...", "resp_..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;
  // Of a conversation with pictures that goes on: whether the looks of earlier questions stand
  // where they stood ("kept") or are not known any more ("forgotten"); empty: there were none.
  std::string earlier_looks;
};

// The events of an answer that comes in chunks, each ready to be sent ("data: {...}\n\n"); empty
// where there is nothing to send yet. Used from one thread at a time.
class AnswerStream {
 public:
  virtual ~AnswerStream() = default;

  virtual std::string begin() = 0;
  // A token that was drawn, before the text that it makes certain; kept for the logprobs of the
  // next chunk of that answer. Needed only where the call wants logprobs.
  virtual void token(int answer, const AnswerToken& token) = 0;
  virtual std::string text(int answer, std::string_view piece) = 0;
  // What was held back, and how each answer ended.
  virtual std::string finish(const Answer& answer) = 0;
  virtual std::string error(const ApiError& error) = 0;  // in place of finish()
};

// By the call's API.
std::unique_ptr<AnswerStream> make_stream(AnswerHead head, const ChatCall& call);
std::string answer_body(const AnswerHead& head, const ChatCall& call, const Answer& answer);

// What was said, as the client sends it back: calls of tools apart from the text.
Message message_of(const AnswerHead& head, const ChatCall& call, const Answer& answer);

// The parts that both write.
bool has_tools(const ChatCall& call);
std::string id_seed(const AnswerHead& head, int answer);  // of calls of tools
nlohmann::ordered_json logprobs_json(std::span<const AnswerToken> tokens);
nlohmann::ordered_json gaze_json(const AnswerHead& head, const Answer& answer, bool trace);

}  // namespace fovea::serve
