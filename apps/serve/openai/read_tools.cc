// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/read_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace fovea::serve {
namespace {

// Where a function's own keys lead to.
std::string function_path(const std::string& path, Api api) {
  return api == Api::kChat ? path + ".function" : path;
}

// {"type": "function", "function": {"name": ...}} -> its function, which has a name; of responses
// {"type": "function", "name": ...} -> itself.
ApiResult<Json*> read_function(Json& json, const std::string& path, Api api) {
  if (!json.is_object()) return wrong_type(path, json, "an object");
  const Fields tool(json, path);
  const Json* type = tool.find("type");
  if (type != nullptr && *type != "function")
    return tool.wrong("type", "the only type of tools is \"function\"");
  Json* found = &json;
  if (api == Api::kChat) {
    auto function = tool.object("function");
    if (std::holds_alternative<ApiError>(function)) return function;
    found = std::get<Json*>(function);
    if (found == nullptr) return tool.wrong("function", "it is missing; give an object");
  }
  const Fields fields(*found, function_path(path, api));
  const Json* name = fields.find("name");
  if (name == nullptr) return fields.wrong("name", "it is missing; give a string");
  if (!name->is_string()) return wrong_type(fields.param("name"), *name, "a string");
  if (name->get_ref<const std::string&>().empty())
    return fields.wrong("name", "it is empty; give the name of the function");
  return found;
}

// A tool of responses gets the form of chat completions, which templates know.
Fault read_tool(Json& json, const std::string& path, Api api, std::vector<std::string>& names) {
  auto function = read_function(json, path, api);
  if (auto* error = std::get_if<ApiError>(&function)) return *error;
  Json& found = *std::get<Json*>(function);
  const Fields fields(found, function_path(path, api));
  auto parameters = fields.object("parameters");
  if (auto* error = std::get_if<ApiError>(&parameters)) return *error;
  const Json* description = fields.find("description");
  if (description != nullptr && !description->is_string())
    return wrong_type(fields.param("description"), *description, "a string");
  names.push_back(found["name"].get<std::string>());
  if (api == Api::kChat) return {};
  Json inner = std::move(json);
  inner.erase("type");
  json = Json::object();
  json["type"] = "function";
  json["function"] = std::move(inner);
  return {};
}

// The names of the tools; none where none are given.
Fault read_list(const Fields& body, Api api, std::string& text, std::vector<std::string>& names) {
  auto list = body.list("tools");
  if (auto* error = std::get_if<ApiError>(&list)) return *error;
  Json* tools = std::get<Json*>(list);
  if (tools == nullptr) return {};
  // Clients of responses write out what is not there.
  if (tools->empty() && api == Api::kResponses) return {};
  if (tools->empty()) return body.wrong("tools", "the list is empty; leave it out");
  for (size_t i = 0; i < tools->size(); ++i)
    if (auto fault = read_tool((*tools)[i], fmt::format("tools[{}]", i), api, names)) return fault;
  text = json_text(*tools);
  return {};
}

struct NamedChoice {
  const char* name;
  ToolChoice choice;
};
constexpr NamedChoice kChoices[] = {
    {"none", ToolChoice::kNone}, {"auto", ToolChoice::kAuto}, {"required", ToolChoice::kRequired}};

Fault read_choice(const Fields& body, const std::vector<std::string>& tools, ChatCall& call) {
  Json* choice = body.find("tool_choice");
  if (choice == nullptr) return {};
  if (choice->is_string()) {
    const auto* named = std::find_if(std::begin(kChoices), std::end(kChoices),
                                     [&](const NamedChoice& one) { return *choice == one.name; });
    if (named == std::end(kChoices))
      return body.wrong("tool_choice",
                        fmt::format("{} is unknown; use none, auto, required or an object",
                                    in_quotes(choice->get_ref<const std::string&>())));
    call.tool_choice = named->choice;
  } else {
    auto function = read_function(*choice, "tool_choice", call.api);
    if (auto* error = std::get_if<ApiError>(&function)) return *error;
    call.tool_choice = ToolChoice::kNamed;
    call.tool_name = (*std::get<Json*>(function))["name"].get<std::string>();
  }
  // "none" asks for nothing that is not so without tools: clients, vLLM's among them, keep it where
  // they have taken the tools out. Clients of responses write out "auto" beside no tools.
  const bool may_stand_alone =
      call.tool_choice == ToolChoice::kNone ||
      (call.tool_choice == ToolChoice::kAuto && call.api == Api::kResponses);
  if (!may_stand_alone && tools.empty())
    return body.wrong("tool_choice", "there are no tools; give some");
  if (!call.tool_name.empty() &&
      std::find(tools.begin(), tools.end(), call.tool_name) == tools.end())
    return body.wrong("tool_choice",
                      fmt::format("{} is none of the tools", in_quotes(call.tool_name)));
  return {};
}

size_t levels_of(const Json& value) {
  if (!value.is_structured()) return 0;
  size_t most = 0;
  for (const Json& inner : value) most = std::max(most, levels_of(inner));
  return most + 1;
}

// A text that is no object stays a text, as does one beyond what the calls of a request may cost.
void parse_arguments(Json& arguments, size_t& left_bytes) {
  constexpr size_t kLevelsAround = 3;  // the list of calls, a call, its function
  const auto& text = arguments.get_ref<const std::string&>();
  if (text.size() > left_bytes) return;
  left_bytes -= text.size();
  auto parsed = parse_ordered_json(text.empty() ? "{}" : text);
  if (parsed && parsed->is_object() && levels_of(*parsed) + kLevelsAround <= kMaxOrderedJsonDepth)
    arguments = std::move(*parsed);
}

Fault read_call(Json& json, const std::string& path, size_t& left_bytes) {
  auto function = read_function(json, path, Api::kChat);
  if (auto* error = std::get_if<ApiError>(&function)) return *error;
  const Fields fields(*std::get<Json*>(function), path + ".function");
  Json* arguments = fields.find("arguments");
  if (arguments == nullptr) return fields.wrong("arguments", "they are missing; give a string");
  if (arguments->is_string())
    parse_arguments(*arguments, left_bytes);
  else if (!arguments->is_object())
    return wrong_type(fields.param("arguments"), *arguments, "a string that holds JSON");
  return {};
}

}  // namespace

Fault read_tools(const Fields& body, ChatCall& call) {
  std::string text;
  std::vector<std::string> names;
  if (auto fault = read_list(body, call.api, text, names)) return fault;
  if (auto fault = read_choice(body, names, call)) return fault;
  if (call.tool_choice != ToolChoice::kNone) call.request.options.tools = std::move(text);
  return {};
}

Fault read_tool_calls(const Fields& message, size_t& left_bytes, std::string& tool_calls) {
  auto list = message.list("tool_calls");
  if (auto* error = std::get_if<ApiError>(&list)) return *error;
  Json* calls = std::get<Json*>(list);
  if (calls == nullptr || calls->empty()) return {};
  const std::string path = message.param("tool_calls");
  for (size_t i = 0; i < calls->size(); ++i) {
    Json& call = (*calls)[i];
    if (auto fault = read_call(call, fmt::format("{}[{}]", path, i), left_bytes)) return fault;
    tool_calls += (i == 0 ? "[" : ",") + json_text(call);
    call = nullptr;  // what was parsed may be far larger than its text
  }
  tool_calls += ']';
  return {};
}

}  // namespace fovea::serve
