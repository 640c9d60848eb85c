// SPDX-License-Identifier: Apache-2.0
// "instructions" and "input" of /v1/responses: messages, calls of tools, and
// what they gave.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "serve/openai/read_messages.h"
#include "serve/openai/read_tools.h"

namespace fovea::serve {
namespace {

class ItemReader {
 public:
  ItemReader(const ChatLimits& limits, ChatCall& call, PictureDetail& detail)
      : call_(call), messages_(limits, call, detail) {}

  Fault read(Json& json, const std::string& path);
  Fault end_calls();  // those that stand one after the other are of one message

 private:
  Fault read_call(const Fields& item);

  ChatCall& call_;
  MessageReader messages_;
  Json calls_ = Json::array();
};

Fault ItemReader::read(Json& json, const std::string& path) {
  if (!json.is_object()) return wrong_type(path, json, "an object");
  const Fields item(json, path);
  std::string type = "message";
  if (auto fault = item.read("type", type)) return fault;
  if (type == "function_call") return read_call(item);
  if (auto fault = end_calls()) return fault;
  if (type == "message") return messages_.read(json, path);
  if (type == "reasoning") return {};  // of other models; templates have no place for it
  if (type == "function_call_output") {
    std::string id;  // outputs stand in the order of the calls, which is all
                     // that templates know
    if (auto fault = need_text(item, "call_id", id)) return fault;
    return messages_.read_output(item);
  }
  return item.wrong("type", fmt::format("{} is not supported; use message, function_call or "
                                        "function_call_output",
                                        in_quotes(type)));
}

Fault ItemReader::read_call(const Fields& item) {
  std::string name;
  std::string id;
  std::string arguments;
  if (auto fault = need_text(item, "call_id", id)) return fault;
  if (auto fault = need_text(item, "name", name)) return fault;
  if (name.empty()) return item.wrong("name", "it is empty; give the name of the function");
  if (auto fault = need_text(item, "arguments", arguments)) return fault;
  Json call = Json::object();
  call["id"] = std::move(id);
  call["type"] = "function";
  call["function"] = Json::object();
  call["function"]["name"] = std::move(name);
  call["function"]["arguments"] = std::move(arguments);
  calls_.push_back(std::move(call));
  return {};
}

Fault ItemReader::end_calls() {
  if (calls_.empty()) return {};
  Json message = Json::object();
  message["tool_calls"] = std::exchange(calls_, Json::array());
  std::vector<Message>& messages = call_.request.messages;
  const bool goes_on = !messages.empty() && messages.back().role == "assistant" &&
                       messages.back().tool_calls.empty();
  if (!goes_on) messages.push_back({.role = "assistant"});
  return read_tool_calls(Fields(message, "input"), messages_.argument_bytes(),
                         messages.back().tool_calls);
}

Fault read_items(Json& items, const ChatLimits& limits, ChatCall& call, PictureDetail& detail) {
  if (items.empty()) return wrong_param("input", "the list is empty; give a message");
  if (items.size() > limits.messages)
    return wrong_param(
        "input", fmt::format("there are {} items; give {} at most",
                             with_commas(static_cast<int64_t>(items.size())), limits.messages));
  ItemReader reader(limits, call, detail);
  for (size_t i = 0; i < items.size(); ++i)
    if (auto fault = reader.read(items[i], fmt::format("input[{}]", i))) return fault;
  if (auto fault = reader.end_calls()) return fault;
  if (call.request.messages.empty())
    return wrong_param("input", "there is no message; give one at least");
  return check_last_message(call, "input", items.size());
}

}  // namespace

Fault read_input(const Fields& body, const ChatLimits& limits, ChatCall& call,
                 PictureDetail& detail) {
  std::string instructions;
  if (auto fault = body.read("instructions", instructions)) return fault;
  if (!instructions.empty())
    call.request.messages.push_back({"system", {{-1, std::move(instructions)}}});
  Json* input = body.find("input");
  if (input == nullptr) return body.wrong("input", "it is missing; give a string or a list");
  if (input->is_array()) return read_items(*input, limits, call, detail);
  if (!input->is_string()) return wrong_type("input", *input, "a string or a list");
  Message question{.role = "user"};
  if (auto fault = body.read("input", question.parts.emplace_back().text)) return fault;
  call.request.messages.push_back(std::move(question));
  return {};
}

}  // namespace fovea::serve
