// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/answer_head.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "fovea/answer_json.h"
#include "serve/openai/chat_answer.h"
#include "serve/openai/responses_answer.h"
#include "serve/openai/tool_calls.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

// A token's bytes may end inside a character: its text has a replacement there.
Json token_json(const LikelyToken& token) {
  Json bytes = Json::array();
  for (const char byte : token.token) bytes.push_back(static_cast<uint8_t>(byte));
  constexpr double kNever = -9999;  // as OpenAI writes it: JSON has no infinity
  Json json = Json::object();
  json["token"] = token.token;
  json["logprob"] = token.logprob > kNever ? token.logprob : kNever;
  json["bytes"] = std::move(bytes);
  return json;
}

}  // namespace

std::unique_ptr<AnswerStream> make_stream(AnswerHead head, const ChatCall& call) {
  if (call.api == Api::kResponses) return std::make_unique<ResponseStream>(std::move(head), call);
  return std::make_unique<ChatStream>(std::move(head), call);
}

std::string answer_body(const AnswerHead& head, const ChatCall& call, const Answer& answer) {
  return call.api == Api::kResponses ? response_json(head, call, answer)
                                     : chat_answer_json(head, call, answer);
}

Message message_of(const AnswerHead& head, const ChatCall& call, const Answer& answer) {
  if (!has_tools(call)) return {"assistant", {{-1, answer.text}}};
  const SaidAndCalled said =
      split_tool_calls(answer.text, id_seed(head, 0), !call.parallel_tool_calls);
  Message message{"assistant", {{-1, said.text}}};
  Json calls = Json::array();
  for (const ToolCall& one : said.calls) {
    auto arguments = parse_ordered_json(one.arguments);
    Json function = Json::object();
    function["name"] = one.name;
    function["arguments"] =
        arguments && arguments->is_object() ? std::move(*arguments) : Json(one.arguments);
    calls.push_back({{"id", one.id}, {"type", "function"}, {"function", std::move(function)}});
  }
  if (!calls.empty()) message.tool_calls = json_text(calls);
  return message;
}

bool has_tools(const ChatCall& call) { return !call.request.options.tools.empty(); }

std::string id_seed(const AnswerHead& head, int answer) {
  return fmt::format("{}/{}", head.id, answer);
}

Json logprobs_json(std::span<const AnswerToken> tokens) {
  Json content = Json::array();
  for (const AnswerToken& token : tokens) {
    Json step = token_json(token);
    step["top_logprobs"] = Json::array();
    for (const LikelyToken& likely : token.likely)
      step["top_logprobs"].push_back(token_json(likely));
    content.push_back(std::move(step));
  }
  return content;
}

Json gaze_json(const AnswerHead& head, const Answer& answer, bool trace) {
  Json json = app::basis_json(answer);
  if (!head.earlier_looks.empty()) json["earlier_looks"] = head.earlier_looks;
  if (trace) app::add_trace(answer, json);
  return json;
}

}  // namespace fovea::serve
