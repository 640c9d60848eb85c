// SPDX-License-Identifier: Apache-2.0
#include "serve/grammar/structure.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

const char* const kWeather =
    R"([{"type": "function", "function": {"name": "weather",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}, {"type": "function",
  "function": {"name": "time", "strict": true}}])";

ChatCall schema_call(std::string schema) {
  ChatCall call;
  call.format = AnswerFormat::kJsonSchema;
  call.schema = std::move(schema);
  return call;
}

Json format_of(const ChatCall& call) {
  const auto structure = answer_structure(call);
  const auto* text = std::get_if<std::string>(&structure);
  if (text == nullptr) return std::get<ApiError>(structure).message;
  if (text->empty()) return nullptr;
  return (*parse_ordered_json(*text))["format"];
}

std::string refusal_of(const std::string& schema) {
  const auto structure = answer_structure(schema_call(schema));
  if (std::holds_alternative<std::string>(structure)) return "";
  const auto& error = std::get<ApiError>(structure);
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "response_format.json_schema.schema");
  return error.message;
}

TEST(Structure, NothingIsAskedOfPlainText) {
  ChatCall call;
  EXPECT_EQ(format_of(call), nullptr);
  call.request.options.tools = R"([{"type": "function", "function": {"name": "time"}}])";
  EXPECT_EQ(format_of(call), nullptr) << "tools that are not strict";
}

TEST(Structure, AnObjectOfWhichNothingIsSaidMayHoldAnything) {
  ChatCall call;
  call.format = AnswerFormat::kJsonObject;
  EXPECT_EQ(format_of(call)["json_schema"], Json::parse(R"({"type": "object",
    "additionalProperties": true})"));
  const Json format = format_of(schema_call(
      R"({"type": "object", "properties": {"free": {"type": "object"}, "size": {"type": "integer"}}})"));
  EXPECT_EQ(format["json_schema"]["properties"]["free"]["additionalProperties"], true);
  EXPECT_FALSE(format["json_schema"].contains("additionalProperties"));
}

TEST(Structure, RequiredCallsAreOfAnyToolAndNamedOnesOfOne) {
  ChatCall call;
  call.request.options.tools = kWeather;
  call.tool_choice = ToolChoice::kRequired;
  Json format = format_of(call);
  EXPECT_EQ(format["type"], "tags_with_separator");
  ASSERT_EQ(format["tags"].size(), 2u);
  EXPECT_EQ(format["at_least_one"], true);
  EXPECT_EQ(format["stop_after_first"], false);
  EXPECT_EQ(format["tags"][0]["begin"], "<tool_call>\n{\"name\": \"weather\", \"arguments\": ");
  EXPECT_EQ(format["tags"][0]["end"], "}\n</tool_call>");
  call.tool_choice = ToolChoice::kNamed;
  call.tool_name = "time";
  format = format_of(call);
  ASSERT_EQ(format["tags"].size(), 1u);
  EXPECT_EQ(format["tags"][0]["begin"], "<tool_call>\n{\"name\": \"time\", \"arguments\": ");
  EXPECT_EQ(format["stop_after_first"], true);
}

TEST(Structure, StrictToolsLeaveTextFreeUntilACallBegins) {
  ChatCall call;
  call.request.options.tools = kWeather;
  call.parallel_tool_calls = false;
  const Json format = format_of(call);
  EXPECT_EQ(format["type"], "triggered_tags");
  EXPECT_EQ(format["triggers"], Json::array({"<tool_call>"}));
  EXPECT_EQ(format["stop_after_first"], true);
}

TEST(Structure, AFormWithToolsIsOneOrTheOther) {
  ChatCall call = schema_call(R"({"type": "boolean"})");
  call.request.options.tools = kWeather;
  const Json format = format_of(call);
  EXPECT_EQ(format["type"], "or");
  EXPECT_EQ(format["elements"][0]["json_schema"]["type"], "boolean");
  EXPECT_EQ(format["elements"][1]["type"], "tags_with_separator");
}

std::string nested(size_t levels) {
  std::string schema = R"({"type": "string"})";
  for (size_t i = 0; i < levels; ++i) schema = R"({"items": )" + schema + "}";
  return schema;
}

TEST(Structure, SchemasThatAreTooMuchAreRefused) {
  EXPECT_EQ(refusal_of(nested(30)), "");
  EXPECT_EQ(refusal_of(nested(31)), "the schema has more than 32 levels");
  EXPECT_EQ(refusal_of(R"({"const": ")" + std::string(65'536, 'a') + "\"}"),
            "the schemas have more than 65,536 bytes; give smaller ones");
  std::string list = R"({"enum": [0)";
  for (int i = 0; i < 5000; ++i) list += ",1";
  EXPECT_EQ(refusal_of(list + "]}"), "the schemas hold more than 5,000 values; give fewer");
  EXPECT_EQ(refusal_of(R"({"maxLength": 10001})"), "maxLength is more than 10,000");
  EXPECT_EQ(refusal_of(R"({"$ref": "http://127.0.0.1/x"})"),
            "$ref \"http://127.0.0.1/x\" leads out of the schema; use \"#/...\"");
}

TEST(Structure, PatternsThatRepeatTooOftenAreRefused) {
  const auto of_pattern = [](const std::string& pattern) {
    return refusal_of(R"({"pattern": ")" + pattern + "\"}");
  };
  EXPECT_EQ(of_pattern("^[a-z]{1,100}$"), "");
  const char* const kTooOften = "a pattern repeats something more than 100 times";
  EXPECT_EQ(of_pattern("^[a-z]{101}$"), kTooOften);
  EXPECT_EQ(of_pattern("^(a{11}){11}$"), kTooOften);
  EXPECT_EQ(of_pattern("^a{99999999999999999999}$"), kTooOften);
  EXPECT_EQ(of_pattern(std::string(257, 'a')), "a pattern has 257 bytes; give 256 at most");
  EXPECT_EQ(refusal_of(R"({"patternProperties": {"a{200}": {}}})"), kTooOften);
}

TEST(Structure, ManyLengthsTogetherAreRefused) {
  const auto of_texts = [](int count) {
    std::string schema = R"({"prefixItems": [)";
    for (int i = 0; i < count; ++i)
      schema +=
          (i == 0 ? "" : ",") + std::string(R"({"maxLength": )") + std::to_string(200 + i) + "}";
    return refusal_of(schema + "]}");
  };
  EXPECT_EQ(of_texts(15), "");
  EXPECT_EQ(
      of_texts(16),
      "the patterns and lengths of texts have more than 2,000 repetitions together; give fewer");
}

TEST(Structure, ParametersOfNullAreNone) {
  for (const Api api : {Api::kChat, Api::kResponses}) {
    ChatCall call;
    call.api = api;
    call.request.options.tools =
        R"([{"type": "function", "function": {"name": "a", "parameters": null}}])";
    call.tool_choice = ToolChoice::kRequired;
    const Json format = format_of(call);
    EXPECT_EQ(format["tags"][0]["content"]["json_schema"],
              Json::parse(R"({"type": "object", "additionalProperties": true})"));
  }
}

// A part that xgrammar would leave out, and a word of the refusal.
TEST(Structure, PartsThatWouldNotHoldAreRefused) {
  const std::pair<const char*, const char*> schemas[] = {
      {R"({"allOf": [{"type": "object"}, {"type": "object"}]})", "allOf has more than one"},
      {R"({"type": "object", "properties": {"a": {}}, "anyOf": [{"type": "object"}]})",
       "properties stands beside anyOf"},
      {R"({"type": "object", "required": ["a"], "oneOf": [{"type": "object"}]})",
       "required stands beside oneOf"},
      {R"({"properties": {"a": {}}, "allOf": [{"type": "object"}]})",
       "properties stands beside allOf"},
      {R"({"anyOf": [{"type": "null"}], "allOf": [{"type": "null"}]})",
       "allOf stands beside anyOf"},
      {R"({"$ref": "#node"})", "is an anchor"},
      {R"({"type": []})", "empty list"},
      {R"({"type": "object", "required": ["b"], "properties": {"a": {}},
        "additionalProperties": false})",
       "\"b\" is required"},
      {R"({"type": "string", "pattern": "^(?!a)b$"})", "(?="},
      {R"({"type": "string", "pattern": "^(?<=a)b$"})", "(?="},
      {R"({"type": "string", "pattern": "a+", "maxLength": 3})", "maxLength stands beside"},
      {R"({"type": "integer", "enum": [1, "two"]})", "enum holds \"two\""},
      {R"({"type": ["integer", "null"], "const": true})", "const holds true"},
      {R"({"type": "number", "minimum": 1e-9, "maximum": 2e-9})", "six decimals"},
      {R"({"type": "number", "exclusiveMinimum": 0.000001, "exclusiveMaximum": 0.000002})",
       "six decimals"},
  };
  for (const auto& [schema, word] : schemas) {
    const std::string inside =
        R"({"type": "object", "properties": {"x": )" + std::string(schema) + "}}";
    EXPECT_NE(refusal_of(schema).find(word), std::string::npos) << schema << refusal_of(schema);
    EXPECT_NE(refusal_of(inside).find(word), std::string::npos) << inside;
  }
}

TEST(Structure, PartsThatHoldAreTaken) {
  for (const char* schema : {
           R"({"allOf": [{"type": "object"}], "description": "one alone"})",
           R"({"anyOf": [{"type": "null"}, {"type": "string"}], "default": null, "title": "a"})",
           R"({"type": "string", "pattern": "\\(?!"})",
           R"({"type": "string", "pattern": "[(?=]"})",
           R"({"type": ["integer", "null"], "enum": [1, 2.0, null]})",
           R"({"type": "number", "minimum": 0.1, "maximum": 0.1})",
           R"({"type": "number", "minimum": 0.1, "exclusiveMaximum": 0.3})",
           R"({"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991})",
           R"({"enum": [{"allOf": [1, 2], "type": []}]})",
           R"({"type": "object", "properties": {"allOf": {"type": "string"}, "required": {}}})",
       })
    EXPECT_EQ(refusal_of(schema), "") << schema;
}

TEST(Structure, ToolsThatAreNotStrictMayHaveAnySchema) {
  const std::string loose =
      R"({"type": "function", "function": {"name": "a", "parameters": {"allOf": [{}, {}]}}})";
  const std::string strict = R"({"type": "function", "function": {"name": "b", "strict": true}})";
  ChatCall call;
  call.request.options.tools = "[" + loose + "]";
  EXPECT_EQ(format_of(call), nullptr);
  call.request.options.tools = "[" + loose + "," + strict + "]";
  EXPECT_EQ(format_of(call)["tags"].size(), 2u);
  call.tool_choice = ToolChoice::kRequired;
  EXPECT_EQ(std::get<ApiError>(answer_structure(call)).param, "tools[0].function.parameters");
}

TEST(Structure, NamesThatAreRequiredGetAProperty) {
  Json schema = format_of(schema_call(R"({"type": "object", "required": ["a"]})"))["json_schema"];
  EXPECT_TRUE(schema["properties"].contains("a"));
  EXPECT_EQ(schema["additionalProperties"], true);
  schema = format_of(schema_call(R"({"type": "object", "required": ["b", "a"], "properties":
    {"a": {"type": "string"}}, "additionalProperties": true})"))["json_schema"];
  EXPECT_EQ(schema["properties"]["a"]["type"], "string");
  EXPECT_EQ(schema["properties"]["b"], Json::object());
  EXPECT_NE(refusal_of(R"({"required": ["a"], "additionalProperties": {"type": "integer"}})"), "");
}

TEST(Structure, ErrorsNameTheTool) {
  ChatCall call;
  call.request.options.tools =
      R"([{"type": "function", "function": {"name": "a", "strict": true}},
    {"type": "function", "function": {"name": "b", "parameters": {"maxItems": 1e9}}}])";
  const auto structure = answer_structure(call);
  EXPECT_EQ(std::get<ApiError>(structure).param, "tools[1].function.parameters");
}

}  // namespace
}  // namespace fovea::serve
