// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/responses_answer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "serve/openai/tool_calls.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

Json usage_json(const Usage& usage) {
  const int64_t input = usage.text_tokens + usage.image_tokens;
  Json details = Json::object();
  details["cached_tokens"] = usage.kept_tokens;
  details["text_tokens"] = usage.text_tokens;
  details["image_tokens"] = usage.image_tokens;
  Json json = Json::object();
  json["input_tokens"] = input;
  json["input_tokens_details"] = std::move(details);
  json["output_tokens"] = usage.answer_tokens;
  json["output_tokens_details"] = Json::object();
  json["output_tokens_details"]["reasoning_tokens"] = 0;
  json["total_tokens"] = input + usage.answer_tokens;
  return json;
}

// Without its output: what a response says of itself and of the request.
Json response_of(const AnswerHead& head, const Json& echo, const char* status) {
  Json json = Json::object();
  json["id"] = head.id;
  json["object"] = "response";
  json["created_at"] = head.created;
  json["status"] = status;
  json["error"] = nullptr;
  json["incomplete_details"] = nullptr;
  json["model"] = head.model;
  json["output"] = Json::array();
  for (const auto& [key, value] : echo.items()) json[key] = value;
  json["background"] = false;
  json["previous_response_id"] = nullptr;
  json["store"] = false;
  json["truncation"] = "disabled";
  json["usage"] = nullptr;
  return json;
}

Json text_part(const std::string& text, Json logprobs) {
  Json part = Json::object();
  part["type"] = "output_text";
  part["annotations"] = Json::array();
  part["logprobs"] = std::move(logprobs);
  part["text"] = text;
  return part;
}

// What the answer says, item by item, and the events that tell of it. A message
// or a call is open until something else begins.
class Output {
 public:
  Output(const AnswerHead& head, const ChatCall& call) : head_(head), logprobs_(call.logprobs) {
    if (has_tools(call)) parser_.emplace(id_seed(head, 0), !call.parallel_tool_calls);
  }

  void token(const AnswerToken& token) {
    ++taken_;
    if (logprobs_) tokens_.push_back(token);
  }
  void add(std::string_view text) {
    if (parser_)
      for (const AnswerPiece& piece : parser_->add(text)) take(piece);
    else
      take({.text = std::string(text)});
  }
  void finish(const Answer& answer) {
    if (parser_)
      for (const AnswerPiece& piece : parser_->finish()) take(piece);
    for (size_t i = taken_; i < answer.tokens.size(); ++i) token(answer.tokens[i]);
    if (open_ == Open::kNone && items_.empty()) begin_text();  // an empty answer is a message, too
    // The last call of an answer that ran out of tokens is not whole.
    end_item(parser_ && parser_->cut_short() ? "incomplete" : "completed");
  }

  Json items() const { return items_; }
  std::string events() { return std::exchange(events_, {}); }
  void say(const char* type, Json fields) {
    Json json = Json::object();
    json["type"] = type;
    json["sequence_number"] = sequence_++;
    for (auto& [key, value] : fields.items()) json[key] = std::move(value);
    events_ += fmt::format("event: {}\ndata: {}\n\n", type, json_text(json));
  }

 private:
  enum class Open { kNone, kText, kCall };

  void take(const AnswerPiece& piece) {
    const bool is_text = piece.call < 0;
    if (is_text && piece.text.empty()) return;
    if (is_text && open_ != Open::kText) begin_text();
    if (!is_text && !piece.id.empty()) begin_call(piece);
    text_ += piece.text;
    if (piece.text.empty()) return;
    Json fields = place();
    fields["delta"] = piece.text;
    if (is_text) fields["logprobs"] = take_logprobs();
    say(is_text ? "response.output_text.delta" : "response.function_call_arguments.delta",
        std::move(fields));
  }

  // Where an event of the open item belongs.
  Json place() const {
    Json fields = Json::object();
    fields["item_id"] = item_["id"];
    fields["output_index"] = items_.size();
    if (open_ == Open::kText) fields["content_index"] = 0;
    return fields;
  }
  void say_item(const char* type) {
    Json fields = Json::object();
    fields["output_index"] = items_.size();
    fields["item"] = item_;
    say(type, std::move(fields));
  }
  Json take_logprobs() {
    Json made = logprobs_json(std::exchange(tokens_, {}));
    for (const Json& one : made) item_logprobs_.push_back(one);
    return made;
  }

  void begin(Open kind, Json item) {
    end_item("completed");
    open_ = kind;
    text_.clear();
    item_logprobs_ = Json::array();
    item_ = std::move(item);
    say_item("response.output_item.added");
  }
  void begin_text() {
    Json item = Json::object();
    item["id"] = fmt::format("msg_{}_{}", head_.id, items_.size() + (open_ == Open::kNone ? 0 : 1));
    item["type"] = "message";
    item["status"] = "in_progress";
    item["role"] = "assistant";
    item["content"] = Json::array();
    begin(Open::kText, std::move(item));
    Json fields = place();
    fields["part"] = text_part("", Json::array());
    say("response.content_part.added", std::move(fields));
  }
  void begin_call(const AnswerPiece& piece) {
    Json item = Json::object();
    item["id"] = "fc_" + piece.id;
    item["type"] = "function_call";
    item["status"] = "in_progress";
    item["call_id"] = piece.id;
    item["name"] = piece.name;
    item["arguments"] = "";
    begin(Open::kCall, std::move(item));
  }
  void end_item(const char* status) {
    if (open_ == Open::kNone) return;
    item_["status"] = status;
    if (open_ == Open::kText)
      end_text();
    else
      end_call();
    say_item("response.output_item.done");
    items_.push_back(std::move(item_));
    open_ = Open::kNone;
  }
  void end_text() {
    (void)take_logprobs();
    Json done = place();
    done["text"] = text_;
    done["logprobs"] = item_logprobs_;
    say("response.output_text.done", std::move(done));
    Json part = place();
    part["part"] = text_part(text_, std::move(item_logprobs_));
    item_["content"].push_back(part["part"]);
    say("response.content_part.done", std::move(part));
  }
  void end_call() {
    item_["arguments"] = text_;
    Json done = place();
    done["name"] = item_["name"];
    done["arguments"] = text_;
    say("response.function_call_arguments.done", std::move(done));
  }

  const AnswerHead& head_;
  const bool logprobs_;
  std::optional<ToolCallParser> parser_;  // where there are tools
  std::vector<AnswerToken> tokens_;       // of no delta yet
  size_t taken_ = 0;                      // tokens that came, those above among them
  Open open_ = Open::kNone;
  Json item_;         // that is open
  std::string text_;  // of it, or its arguments
  Json item_logprobs_ = Json::array();
  Json items_ = Json::array();  // that have ended
  int64_t sequence_ = 0;
  std::string events_;
};

}  // namespace

struct ResponseStream::State {
  State(AnswerHead its_head, const ChatCall& call)
      : head(std::move(its_head)), trace(call.trace), output(head, call) {
    if (auto parsed = parse_ordered_json(call.echo)) echo = std::move(*parsed);
  }

  // As it is at its end.
  Json finished(const Answer& answer);

  AnswerHead head;
  bool trace;
  Json echo = Json::object();
  Output output;
};

Json ResponseStream::State::finished(const Answer& answer) {
  output.finish(answer);
  const bool cut = answer.finish == "length" || answer.finish == "deadline";
  Json json = response_of(head, echo, cut ? "incomplete" : "completed");
  if (cut) json["incomplete_details"] = Json{{"reason", "max_output_tokens"}};
  json["output"] = output.items();
  json["usage"] = usage_json(answer.trace.usage);
  json["fovea"] = gaze_json(head, answer, trace);
  return json;
}

ResponseStream::ResponseStream(AnswerHead head, const ChatCall& call)
    : state_(std::make_unique<State>(std::move(head), call)) {}
ResponseStream::~ResponseStream() = default;

std::string ResponseStream::begin() {
  for (const char* type : {"response.created", "response.in_progress"}) {
    Json fields = Json::object();
    fields["response"] = response_of(state_->head, state_->echo, "in_progress");
    state_->output.say(type, std::move(fields));
  }
  return state_->output.events();
}

void ResponseStream::token(int /*answer*/, const AnswerToken& token) {
  state_->output.token(token);
}

std::string ResponseStream::text(int /*answer*/, std::string_view piece) {
  state_->output.add(piece);
  return state_->output.events();
}

std::string ResponseStream::finish(const Answer& answer) {
  Json fields = Json::object();
  fields["response"] = state_->finished(answer);
  const bool cut = fields["response"]["status"] == "incomplete";
  state_->output.say(cut ? "response.incomplete" : "response.completed", std::move(fields));
  return state_->output.events();
}

std::string ResponseStream::error(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json fields = Json::object();
  fields["code"] = text_or_null(error.code);
  fields["message"] = error.message;
  fields["param"] = text_or_null(error.param);
  state_->output.say("error", std::move(fields));
  return state_->output.events();
}

std::string ResponseStream::whole(const Answer& answer) {
  for (const AnswerToken& token : answer.tokens) state_->output.token(token);
  state_->output.add(answer.text);
  return json_text(state_->finished(answer));
}

// The same items as a stream has, without its events.
std::string response_json(const AnswerHead& head, const ChatCall& call, const Answer& answer) {
  return ResponseStream(head, call).whole(answer);
}

}  // namespace fovea::serve
