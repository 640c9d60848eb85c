// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/chat_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "serve/openai/tool_calls.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

struct Finish {
  const char* of_engine;
  const char* of_api;
};
// An answer that ran out of time is cut, as by length: clients warn of that.
constexpr Finish kFinishes[] = {{"end", "stop"},
                                {"stop", "stop"},
                                {"length", "length"},
                                {"deadline", "length"},
                                {"cancelled", "stop"}};

// `complete_calls`: there are calls, and the last was not cut short.
const char* finish_reason(const std::string& finish, bool complete_calls) {
  if (complete_calls) return "tool_calls";
  for (const Finish& one : kFinishes)
    if (one.of_engine == finish) return one.of_api;
  return "stop";
}

const Answer& nth(const Answer& answer, size_t n) { return n == 0 ? answer : answer.others[n - 1]; }

Json head_json(const AnswerHead& head, const char* object) {
  Json json = Json::object();
  json["id"] = head.id;
  json["object"] = object;
  json["created"] = head.created;
  json["model"] = head.model;
  json["system_fingerprint"] = head.fingerprint;
  return json;
}

Json choice_logprobs(std::span<const AnswerToken> tokens) {
  Json json = Json::object();
  json["content"] = logprobs_json(tokens);
  json["refusal"] = nullptr;
  return json;
}

Json function_json(const std::string& name, const std::string& arguments) {
  Json json = Json::object();
  json["name"] = name;
  json["arguments"] = arguments;
  return json;
}

Json message_json(const SaidAndCalled& said) {
  Json json = Json::object();
  json["role"] = "assistant";
  json["content"] = said.text;
  if (said.text.empty() && !said.calls.empty()) json["content"] = nullptr;
  json["refusal"] = nullptr;
  for (const ToolCall& call : said.calls) {
    Json one = Json::object();
    one["id"] = call.id;
    one["type"] = "function";
    one["function"] = function_json(call.name, call.arguments);
    json["tool_calls"].push_back(std::move(one));
  }
  return json;
}

Json usage_json(const Usage& usage) {
  const int64_t prompt = usage.text_tokens + usage.image_tokens;
  Json details = Json::object();
  details["text_tokens"] = usage.text_tokens;
  details["image_tokens"] = usage.image_tokens;
  details["cached_tokens"] = usage.kept_tokens;
  Json json = Json::object();
  json["prompt_tokens"] = prompt;
  json["completion_tokens"] = usage.answer_tokens;
  json["total_tokens"] = prompt + usage.answer_tokens;
  json["prompt_tokens_details"] = std::move(details);
  return json;
}

std::string event_of(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

}  // namespace

std::string chat_answer_json(const AnswerHead& head, const ChatCall& call, const Answer& answer) {
  Json json = head_json(head, "chat.completion");
  json["choices"] = Json::array();
  for (size_t i = 0; i <= answer.others.size(); ++i) {
    const Answer& one = nth(answer, i);
    SaidAndCalled said{.text = one.text};
    if (has_tools(call))
      said =
          split_tool_calls(one.text, id_seed(head, static_cast<int>(i)), !call.parallel_tool_calls);
    Json choice = Json::object();
    choice["index"] = i;
    choice["message"] = message_json(said);
    choice["logprobs"] = call.logprobs ? choice_logprobs(one.tokens) : Json(nullptr);
    choice["finish_reason"] = finish_reason(one.finish, !said.calls.empty() && !said.cut_short);
    json["choices"].push_back(std::move(choice));
  }
  json["usage"] = usage_json(answer.trace.usage);
  json["fovea"] = gaze_json(head, answer, call.trace);
  return json_text(json);
}

// One of the answers, on its way.
struct StreamedAnswer {
  std::optional<ToolCallParser> parser;  // where there are tools
  std::vector<AnswerToken> tokens;       // of no chunk yet
  size_t taken = 0;                      // tokens that came, those above among them
};

struct ChatStream::State {
  AnswerHead head;
  bool include_usage = false;
  bool logprobs = false;
  bool trace = false;
  std::vector<StreamedAnswer> choices;

  StreamedAnswer& of(int answer) {
    FOVEA_CHECK(answer >= 0 && static_cast<size_t>(answer) < choices.size());
    return choices[static_cast<size_t>(answer)];
  }
  Json chunk(size_t answer, Json delta, const char* finish = nullptr);
  std::string text_event(size_t answer, std::string_view text);
  std::string piece_events(size_t answer, const std::vector<AnswerPiece>& pieces);
  std::string finish_events(size_t answer, const Answer& whole);
};

Json ChatStream::State::chunk(size_t answer, Json delta, const char* finish) {
  Json choice = Json::object();
  choice["index"] = answer;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = nullptr;
  if (auto& tokens = choices[answer].tokens; logprobs && !tokens.empty())
    choice["logprobs"] = choice_logprobs(std::exchange(tokens, {}));
  choice["finish_reason"] = finish == nullptr ? Json(nullptr) : Json(finish);
  Json json = head_json(head, "chat.completion.chunk");
  json["choices"] = Json::array();
  json["choices"].push_back(std::move(choice));
  if (include_usage) json["usage"] = nullptr;
  return json;
}

std::string ChatStream::State::text_event(size_t answer, std::string_view text) {
  if (text.empty()) return "";
  Json delta = Json::object();
  delta["content"] = text;
  return event_of(chunk(answer, std::move(delta)));
}

std::string ChatStream::State::piece_events(size_t answer, const std::vector<AnswerPiece>& pieces) {
  std::string events;
  for (const AnswerPiece& piece : pieces) {
    if (piece.call < 0) {
      events += text_event(answer, piece.text);
      continue;
    }
    Json call = Json::object();
    call["index"] = piece.call;
    if (!piece.id.empty()) {
      call["id"] = piece.id;
      call["type"] = "function";
      call["function"] = function_json(piece.name, piece.text);
    } else {
      call["function"] = {{"arguments", piece.text}};
    }
    Json delta = Json::object();
    delta["tool_calls"] = Json::array();
    delta["tool_calls"].push_back(std::move(call));
    events += event_of(chunk(answer, std::move(delta)));
  }
  return events;
}

std::string ChatStream::State::finish_events(size_t answer, const Answer& whole) {
  static const Answer kMissing{.finish = "cancelled"};
  const bool is_there = answer <= whole.others.size();
  const Answer& one = is_there ? nth(whole, answer) : kMissing;
  StreamedAnswer& choice = choices[answer];
  std::string events;
  bool complete_calls = false;
  if (choice.parser) {
    events += piece_events(answer, choice.parser->finish());
    complete_calls = choice.parser->calls() > 0 && !choice.parser->cut_short();
  }
  if (logprobs && choice.taken < one.tokens.size())
    choice.tokens.insert(choice.tokens.end(),
                         one.tokens.begin() + static_cast<ptrdiff_t>(choice.taken),
                         one.tokens.end());
  Json last = chunk(answer, Json::object(), finish_reason(one.finish, complete_calls));
  if (answer == 0 && !include_usage) last["fovea"] = gaze_json(head, whole, trace);
  return events + event_of(last);
}

ChatStream::ChatStream(AnswerHead head, const ChatCall& call) : state_(std::make_unique<State>()) {
  state_->head = std::move(head);
  state_->include_usage = call.include_usage;
  state_->logprobs = call.logprobs;
  state_->trace = call.trace;
  state_->choices.resize(static_cast<size_t>(std::max(1, call.request.options.answers)));
  if (!has_tools(call)) return;
  for (size_t i = 0; i < state_->choices.size(); ++i)
    state_->choices[i].parser.emplace(id_seed(state_->head, static_cast<int>(i)),
                                      !call.parallel_tool_calls);
}

ChatStream::~ChatStream() = default;

std::string ChatStream::begin() {
  std::string events;
  for (size_t i = 0; i < state_->choices.size(); ++i) {
    Json delta = Json::object();
    delta["role"] = "assistant";
    delta["content"] = "";
    events += event_of(state_->chunk(i, std::move(delta)));
  }
  return events;
}

void ChatStream::token(int answer, const AnswerToken& token) {
  StreamedAnswer& choice = state_->of(answer);
  ++choice.taken;
  if (state_->logprobs) choice.tokens.push_back(token);
}

std::string ChatStream::text(int answer, std::string_view piece) {
  const auto index = static_cast<size_t>(answer);
  auto& parser = state_->of(answer).parser;
  return parser ? state_->piece_events(index, parser->add(piece))
                : state_->text_event(index, piece);
}

std::string ChatStream::finish(const Answer& answer) {
  std::string events;
  for (size_t i = 0; i < state_->choices.size(); ++i) events += state_->finish_events(i, answer);
  if (state_->include_usage) {
    Json json = head_json(state_->head, "chat.completion.chunk");
    json["choices"] = Json::array();
    json["usage"] = usage_json(answer.trace.usage);
    json["fovea"] = gaze_json(state_->head, answer, state_->trace);
    events += event_of(json);
  }
  return events + "data: [DONE]\n\n";
}

std::string ChatStream::error(const ApiError& error) {
  return "data: " + error_body(error) + "\n\n";
}

}  // namespace fovea::serve
