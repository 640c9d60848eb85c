// SPDX-License-Identifier: Apache-2.0
#include "serve/grammar/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "serve/grammar/mend_schema.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {
namespace {

// Between the values of an object: enough for an indented one, too few for a model that is lost.
constexpr int kMostSpaces = 8;

// The schemas of one call, counted together.
class SchemaReader {
 public:
  explicit SchemaReader(const SchemaLimits& limits) : limits_(limits) {}

  // A schema as it may be compiled. `param` leads to it. Where not all of it `must_hold`, parts
  // that a grammar would leave out are left to the model.
  ApiResult<Json> read(Json schema, const std::string& param, bool must_hold = true);

 private:
  Fault check(Json& value, size_t level, const std::string& param);
  Fault check_member(const std::string& key, const Json& value, const std::string& param);
  Fault check_pattern(const std::string& pattern, const std::string& param);
  Fault add_repetitions(int64_t count, const std::string& param);

  const SchemaLimits& limits_;
  size_t bytes_ = 0;
  size_t values_ = 0;
  int64_t repetitions_ = 0;
};

ApiResult<Json> SchemaReader::read(Json schema, const std::string& param, bool must_hold) {
  bytes_ += json_text(schema).size();
  if (bytes_ > limits_.bytes)
    return wrong_param(param, fmt::format("the schemas have more than {} bytes; give smaller ones",
                                          with_commas(static_cast<int64_t>(limits_.bytes))));
  if (auto fault = check(schema, 1, param)) return std::move(*fault);
  if (must_hold)
    if (auto fault = mend_schema(schema, param)) return std::move(*fault);
  return schema;
}

// An object of which nothing is said may hold anything; xgrammar would leave it empty.
void open_if_unsaid(Json& value) {
  if (!value.is_object() || !value.contains("type") || value["type"] != "object") return;
  for (const char* key :
       {"properties", "additionalProperties", "patternProperties", "$ref", "unevaluatedProperties",
        "allOf", "anyOf", "oneOf", "propertyNames", "required"})
    if (value.contains(key)) return;
  value["additionalProperties"] = true;
}

Fault SchemaReader::check(Json& value, size_t level, const std::string& param) {
  if (level > limits_.levels)
    return wrong_param(param, fmt::format("the schema has more than {} levels", limits_.levels));
  if (++values_ > limits_.values)
    return wrong_param(param, fmt::format("the schemas hold more than {} values; give fewer",
                                          with_commas(static_cast<int64_t>(limits_.values))));
  if (!value.is_structured()) return {};
  for (const auto& [key, inner] : value.items()) {
    if (auto fault = check(inner, level + 1, param)) return fault;
    if (value.is_object())
      if (auto fault = check_member(key, inner, param)) return fault;
  }
  open_if_unsaid(value);
  return {};
}

Fault SchemaReader::check_member(const std::string& key, const Json& value,
                                 const std::string& param) {
  static constexpr const char* kCounts[] = {"minLength", "maxLength",     "minItems",
                                            "maxItems",  "minProperties", "maxProperties"};
  if (key == "pattern" && value.is_string())
    return check_pattern(value.get_ref<const std::string&>(), param);
  if (key == "patternProperties" && value.is_object())
    for (const auto& [pattern, inner] : value.items())
      if (auto fault = check_pattern(pattern, param)) return fault;
  const bool counts = std::find(std::begin(kCounts), std::end(kCounts), key) != std::end(kCounts);
  if (counts && value.is_number() && value.get<double>() > static_cast<double>(limits_.counts))
    return wrong_param(param, fmt::format("{} is more than {}", key, with_commas(limits_.counts)));
  constexpr double kLongest = 128;  // what is longer is compiled otherwise, and costs no more
  if ((key == "minLength" || key == "maxLength") && value.is_number())
    return add_repetitions(static_cast<int64_t>(std::clamp(value.get<double>(), 0.0, kLongest)),
                           param);
  // Others are on other machines, and no part of the request.
  if (key == "$ref" && value.is_string() && !value.get_ref<const std::string&>().starts_with('#'))
    return wrong_param(param, fmt::format("$ref {} leads out of the schema; use \"#/...\"",
                                          in_quotes(value.get_ref<const std::string&>())));
  return {};
}

Fault SchemaReader::add_repetitions(int64_t count, const std::string& param) {
  repetitions_ += count;
  if (repetitions_ <= limits_.all_repetitions) return {};
  return wrong_param(param,
                     fmt::format("the patterns and lengths of texts have more than {} repetitions "
                                 "together; give fewer",
                                 with_commas(limits_.all_repetitions)));
}

// All numbers in braces multiplied: repetitions inside repetitions are.
Fault SchemaReader::check_pattern(const std::string& pattern, const std::string& param) {
  if (pattern.size() > limits_.pattern_bytes)
    return wrong_param(param, fmt::format("a pattern has {} bytes; give {} at most", pattern.size(),
                                          limits_.pattern_bytes));
  int64_t repetitions = 1;
  for (size_t at = 0; (at = pattern.find('{', at)) != std::string::npos;) {
    int64_t most = 1;
    for (++at; at < pattern.size() && pattern[at] != '}'; ++at) {
      int64_t number = 0;
      const char* begin = pattern.data() + at;
      const auto parsed = std::from_chars(begin, pattern.data() + pattern.size(), number);
      if (parsed.ec == std::errc::result_out_of_range) number = limits_.repetitions + 1;
      if (parsed.ptr == begin) continue;
      most = std::max(most, number);
      at += static_cast<size_t>(parsed.ptr - begin) - 1;
    }
    repetitions *= std::clamp<int64_t>(most, 1, limits_.repetitions + 1);
    if (repetitions > limits_.repetitions)
      return wrong_param(param, fmt::format("a pattern repeats something more than {} times",
                                            with_commas(limits_.repetitions)));
  }
  return add_repetitions(repetitions, param);
}

Json schema_format(Json schema) {
  Json json = Json::object();
  json["type"] = "json_schema";
  json["json_schema"] = std::move(schema);
  json["max_whitespace_cnt"] = kMostSpaces;
  return json;
}

Json any_object() {
  Json json = Json::object();
  json["type"] = "object";
  json["additionalProperties"] = true;
  return json;
}

// <tool_call>\n{"name": "weather", "arguments": {...}}\n</tool_call>
ApiResult<Json> tag_of(Json& function, const std::string& param, bool must_hold,
                       SchemaReader& reader) {
  Json schema = any_object();
  // Clients write out what is not there, as null.
  if (const auto given = function.find("parameters");
      given != function.end() && !given->is_null()) {
    auto read = reader.read(std::move(*given), param + ".parameters", must_hold);
    if (std::holds_alternative<ApiError>(read)) return read;
    schema = std::move(std::get<Json>(read));
  }
  Json tag = Json::object();
  tag["type"] = "tag";
  tag["begin"] =
      fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": ", json_text(function["name"]));
  tag["content"] = schema_format(std::move(schema));
  tag["end"] = "}\n</tool_call>";
  return tag;
}

bool must_call(const ChatCall& call) {
  return call.tool_choice == ToolChoice::kRequired || call.tool_choice == ToolChoice::kNamed;
}

bool may_be_called(Json& function, const ChatCall& call) {
  return call.tool_choice != ToolChoice::kNamed || function["name"] == call.tool_name;
}

struct ToolTags {
  Json tags = Json::array();
  bool any_strict = false;
};

// Of the tools that may be called: all, or the one that must be.
ApiResult<ToolTags> tool_tags(const ChatCall& call, SchemaReader& reader) {
  ToolTags made;
  if (call.request.options.tools.empty()) return made;
  auto tools = parse_ordered_json(call.request.options.tools);  // was written by us
  if (!tools) return wrong_param("tools", tools.error().message);
  const auto is_strict = [](const Json& function) {
    return function.value("strict", Json(false)) == true;
  };
  for (Json& tool : *tools)
    made.any_strict =
        made.any_strict || (may_be_called(tool["function"], call) && is_strict(tool["function"]));
  // Otherwise calls are the model's own, and no grammar is made of them.
  const bool must = must_call(call);
  if (!must && !made.any_strict && call.format == AnswerFormat::kText) return made;
  for (size_t i = 0; i < tools->size(); ++i) {
    Json& function = (*tools)[i]["function"];
    if (!may_be_called(function, call)) continue;
    const char* suffix = call.api == Api::kChat ? ".function" : "";
    auto tag = tag_of(function, fmt::format("tools[{}]{}", i, suffix), must || is_strict(function),
                      reader);
    if (auto* error = std::get_if<ApiError>(&tag)) return std::move(*error);
    made.tags.push_back(std::move(std::get<Json>(tag)));
  }
  return made;
}

// Calls and nothing else.
Json calls_format(const ChatCall& call, Json tags) {
  Json json = Json::object();
  json["type"] = "tags_with_separator";
  json["tags"] = std::move(tags);
  json["separator"] = "\n";
  json["at_least_one"] = true;
  json["stop_after_first"] = !call.parallel_tool_calls || call.tool_choice == ToolChoice::kNamed;
  return json;
}

// Any text, with calls in it.
Json text_and_calls_format(const ChatCall& call, Json tags) {
  Json json = Json::object();
  json["type"] = "triggered_tags";
  json["triggers"] = Json::array({"<tool_call>"});
  json["tags"] = std::move(tags);
  json["at_least_one"] = false;
  json["stop_after_first"] = !call.parallel_tool_calls;
  return json;
}

// What the answer itself must be; null: any text.
ApiResult<Json> text_format(const ChatCall& call, SchemaReader& reader) {
  if (call.format == AnswerFormat::kText) return Json(nullptr);
  if (call.format == AnswerFormat::kJsonObject) return schema_format(any_object());
  const char* param =
      call.api == Api::kChat ? "response_format.json_schema.schema" : "text.format.schema";
  auto schema = parse_ordered_json(call.schema);  // was written by us
  if (!schema) return wrong_param(param, schema.error().message);
  auto read = reader.read(std::move(*schema), param);
  if (std::holds_alternative<ApiError>(read)) return read;
  return schema_format(std::move(std::get<Json>(read)));
}

}  // namespace

ApiResult<std::string> answer_structure(const ChatCall& call, const SchemaLimits& limits) {
  SchemaReader reader(limits);
  auto text = text_format(call, reader);
  if (auto* error = std::get_if<ApiError>(&text)) return std::move(*error);
  Json& said = std::get<Json>(text);
  const bool must = must_call(call);
  auto tools = tool_tags(call, reader);
  if (auto* error = std::get_if<ApiError>(&tools)) return std::move(*error);
  ToolTags& called = std::get<ToolTags>(tools);
  Json format;
  if (must)
    format = calls_format(call, std::move(called.tags));
  else if (said.is_null() && called.any_strict)
    format = text_and_calls_format(call, std::move(called.tags));
  else if (!said.is_null() && !called.tags.empty())
    format = {
        {"type", "or"},
        {"elements", Json::array({std::move(said), calls_format(call, std::move(called.tags))})}};
  else
    format = std::move(said);
  if (format.is_null()) return std::string();
  return json_text(Json{{"type", "structural_tag"}, {"format", std::move(format)}});
}

}  // namespace fovea::serve
