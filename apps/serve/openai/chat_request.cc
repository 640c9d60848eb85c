// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/chat_request.h"

#include <algorithm>
#include <utility>

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
    {"functions", "functions are not supported; use tools"},
    {"function_call", "functions are not supported; use tool_choice"},
    {"audio", "answers are text alone; leave it out"},
    {"web_search_options", "there is no web search; leave it out"},
};

Fault read_refused(const Fields& body) {
  for (const Refused& one : kRefused)
    if (body.has(one.key)) return body.wrong(one.key, one.what);
  auto list = body.list("modalities");
  if (auto* error = std::get_if<ApiError>(&list)) return *error;
  const Json* modalities = std::get<Json*>(list);
  if (modalities == nullptr) return {};
  const bool all_text = std::all_of(modalities->begin(), modalities->end(),
                                    [](const Json& one) { return one == "text"; });
  return all_text ? Fault() : body.wrong("modalities", "answers are text alone; give [\"text\"]");
}

Fault read_logprobs(const Fields& body, ChatCall& call) {
  if (auto fault = body.read("logprobs", call.logprobs)) return fault;
  if (auto fault = read_top_logprobs(body, call)) return fault;
  if (call.top_logprobs > 0 && !call.logprobs)
    return body.wrong("top_logprobs", "they come with logprobs; set logprobs");
  return {};
}

ApiResult<Json*> find_schema(const Fields& format) {
  auto object = format.object("json_schema");
  if (std::holds_alternative<ApiError>(object)) return object;
  if (std::get<Json*>(object) == nullptr)
    return format.wrong("json_schema", "it is missing; give an object with a schema");
  return need_schema(Fields(*std::get<Json*>(object), format.param("json_schema")));
}

Fault read_response_format(const Fields& body, ChatCall& call) {
  auto object = body.object("response_format");
  if (auto* error = std::get_if<ApiError>(&object)) return *error;
  if (std::get<Json*>(object) == nullptr) return {};
  return read_format(Fields(*std::get<Json*>(object), "response_format"), call, find_schema);
}

Fault read_call(const Fields& body, const ChatLimits& limits, ChatCall& call) {
  PictureDetail detail = PictureDetail::kNone;
  if (auto fault = body.read("model", call.model)) return fault;
  if (auto fault = read_refused(body)) return fault;
  if (auto fault = read_messages(body, limits, call, detail)) return fault;
  if (auto fault = read_look(body, detail, call)) return fault;
  if (auto fault = read_options(body, limits, call)) return fault;
  if (auto fault = body.read("n", {1, limits.answers}, call.request.options.answers)) return fault;
  if (auto fault = read_logprobs(body, call)) return fault;
  if (auto fault = read_response_format(body, call)) return fault;
  return read_tools(body, call);
}

}  // namespace

ApiResult<ChatCall> parse_chat_call(std::string body, const ChatLimits& limits) {
  return parse_call(std::move(body), Api::kChat, limits, read_call);
}

}  // namespace fovea::serve
