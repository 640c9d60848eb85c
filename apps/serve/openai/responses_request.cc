// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/responses -> what the engine is asked.
#include <utility>

#include "base/json.h"
#include "serve/openai/chat_request.h"
#include "serve/openai/parse_call.h"
#include "serve/openai/read_json.h"
#include "serve/openai/read_look.h"
#include "serve/openai/read_messages.h"
#include "serve/openai/read_options.h"
#include "serve/openai/read_tools.h"

namespace fovea::serve {
namespace {

struct Refused {
  const char* key;
  const char* what;
};
constexpr Refused kRefused[] = {
    {"previous_response_id", "responses are not kept; give the whole conversation as input"},
    {"conversation", "conversations are not kept; give the whole conversation as input"},
    {"prompt", "there are no stored prompts; give instructions and input"},
};

Fault read_refused(const Fields& body) {
  for (const Refused& one : kRefused)
    if (body.has(one.key)) return body.wrong(one.key, one.what);
  bool background = false;
  if (auto fault = body.read("background", background)) return fault;
  return background ? Fault(body.wrong("background", "responses are not kept; leave it out"))
                    : Fault();
}

// Log-probabilities come where they are asked for in either way.
Fault read_logprobs(const Fields& body, ChatCall& call) {
  if (auto fault = read_top_logprobs(body, call)) return fault;
  auto list = body.list("include");
  if (auto* error = std::get_if<ApiError>(&list)) return *error;
  call.logprobs = call.top_logprobs > 0;
  if (const Json* include = std::get<Json*>(list))
    for (const Json& one : *include)
      call.logprobs = call.logprobs || one == "message.output_text.logprobs";
  return {};
}

Fault read_text(const Fields& body, ChatCall& call) {
  auto text = body.object("text");
  if (auto* error = std::get_if<ApiError>(&text)) return *error;
  if (std::get<Json*>(text) == nullptr) return {};
  const Fields fields(*std::get<Json*>(text), "text");
  auto format = fields.object("format");
  if (auto* error = std::get_if<ApiError>(&format)) return *error;
  if (std::get<Json*>(format) == nullptr) return {};
  return read_format(Fields(*std::get<Json*>(format), "text.format"), call, need_schema);
}

// Taken before the rest, which moves out of the body what it reads.
Json echo_of(const Fields& body) {
  Json echo = Json::object();
  const auto add = [&](const char* key, const Json& otherwise) {
    const Json* given = body.find(key);
    echo[key] = given == nullptr ? otherwise : *given;
  };
  add("instructions", nullptr);
  add("max_output_tokens", nullptr);
  add("metadata", Json::object());
  add("parallel_tool_calls", true);
  add("text", Json{{"format", Json{{"type", "text"}}}});
  add("tool_choice", "auto");
  add("tools", Json::array());
  return echo;
}

Fault read_call(const Fields& body, const ChatLimits& limits, ChatCall& call) {
  PictureDetail detail = PictureDetail::kNone;
  Json echo = echo_of(body);
  if (auto fault = body.read("model", call.model)) return fault;
  if (auto fault = read_refused(body)) return fault;
  if (auto fault = read_input(body, limits, call, detail)) return fault;
  if (auto fault = read_look(body, detail, call)) return fault;
  if (auto fault = read_options(body, limits, call)) return fault;
  if (auto fault = read_logprobs(body, call)) return fault;
  if (auto fault = read_text(body, call)) return fault;
  if (auto fault = read_tools(body, call)) return fault;
  echo["temperature"] = call.request.options.temperature;
  echo["top_p"] = call.request.options.top_p;
  call.echo = json_text(echo);
  return {};
}

}  // namespace

ApiResult<ChatCall> parse_responses_call(std::string body, const ChatLimits& limits) {
  return parse_call(std::move(body), Api::kResponses, limits, read_call);
}

}  // namespace fovea::serve
