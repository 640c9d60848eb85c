// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "serve/openai/chat_request.h"

namespace fovea::serve {
namespace {

ChatCall take_response(const std::string& body) {
  auto call = parse_responses_call(body);
  if (auto* error = std::get_if<ApiError>(&call)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::move(std::get<ChatCall>(call));
}

TEST(ResponsesRequest, ATextIsAQuestionAndInstructionsComeBeforeIt) {
  const ChatCall call = take_response(R"({"input": "Hello", "instructions": "Be brief.",
    "max_output_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stream": true, "model": "tiny",
    "store": true, "user": "me", "n": 5})");
  ASSERT_EQ(call.request.messages.size(), 2u);
  EXPECT_EQ(call.request.messages[0].role, "system");
  EXPECT_EQ(call.request.messages[0].parts[0].text, "Be brief.");
  EXPECT_EQ(call.request.messages[1].role, "user");
  EXPECT_EQ(call.request.messages[1].parts[0].text, "Hello");
  EXPECT_EQ(call.request.options.max_tokens, 7);
  EXPECT_EQ(call.request.options.temperature, 0.5);
  EXPECT_EQ(call.request.options.top_p, 0.9);
  EXPECT_EQ(call.request.options.answers, 1);
  EXPECT_TRUE(call.stream);
  EXPECT_EQ(call.api, Api::kResponses);
  EXPECT_EQ(call.model, "tiny");
}

TEST(ResponsesRequest, PicturesStandWhereTheyAreShown) {
  const ChatCall call = take_response(R"({"input": [{"role": "user", "content": [
    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"},
    {"type": "input_text", "text": "What is this?"}]}]})");
  ASSERT_EQ(call.pictures.size(), 1u);
  EXPECT_EQ(call.pictures[0].url, "data:image/png;base64,AAAA");
  EXPECT_EQ(call.pictures[0].param, "input[0].content[0].image_url");
  EXPECT_EQ(call.request.options.budget_tokens, 256);
  EXPECT_EQ(call.request.messages[0].parts[0].image, 0);
  EXPECT_EQ(call.request.messages[0].parts[1].text, "What is this?");
}

TEST(ResponsesRequest, CallsOfToolsAreOfOneMessageAndWhatTheyGaveFollows) {
  const ChatCall call = take_response(R"({"input": [
    {"type": "message", "role": "user", "content": "Weather in Bern and Rome?"},
    {"type": "reasoning", "summary": []},
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
     "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}]},
    {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{\"city\": \"Bern\"}"},
    {"type": "function_call", "call_id": "b", "name": "weather", "arguments": "{\"city\": \"Rome\"}"},
    {"type": "function_call_output", "call_id": "a", "output": "rain"},
    {"type": "function_call_output", "call_id": "b",
     "output": [{"type": "input_text", "text": "sun"}]}]})");
  const auto& messages = call.request.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].parts[0].text, "Let me see.");
  const auto calls = parse_ordered_json(messages[1].tool_calls);
  ASSERT_TRUE(calls);
  ASSERT_EQ(calls->size(), 2u);
  EXPECT_EQ((*calls)[1]["function"]["name"], "weather");
  EXPECT_EQ((*calls)[1]["function"]["arguments"]["city"], "Rome");
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[2].parts[0].text, "rain");
  EXPECT_EQ(messages[3].parts[0].text, "sun");
}

TEST(ResponsesRequest, ToolsAreToldToTheModelInTheFormOfChatCompletions) {
  const ChatCall call = take_response(R"({"input": "?", "tools": [{"type": "function",
    "name": "weather", "parameters": {"type": "object"}, "strict": true}],
    "tool_choice": {"type": "function", "name": "weather"}})");
  EXPECT_EQ(call.request.options.tools,
            R"([{"type":"function","function":{"name":"weather","parameters":{"type":"object"},)"
            R"("strict":true}}])");
  EXPECT_EQ(call.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(call.tool_name, "weather");
  const auto echo = parse_ordered_json(call.echo);
  ASSERT_TRUE(echo);
  EXPECT_EQ((*echo)["tools"][0]["name"], "weather");
}

TEST(ResponsesRequest, ASchemaStandsInTheFormatItself) {
  const ChatCall call = take_response(R"({"input": "?", "text": {"format": {"type": "json_schema",
    "name": "a", "schema": {"type": "boolean"}, "strict": true}}})");
  EXPECT_EQ(call.format, AnswerFormat::kJsonSchema);
  EXPECT_EQ(call.schema, R"({"type":"boolean"})");
}

struct Wrong {
  const char* body;
  const char* param;
};

TEST(ResponsesRequest, WhatIsWrongIsNamedAsTheBodyNamesIt) {
  const Wrong wrongs[] = {
      {R"({})", "input"},
      {R"({"input": 5})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": ["a"]})", "input[0]"},
      {R"({"input": [{"type": "reasoning"}]})", "input"},
      {R"({"input": [{"type": "item_reference", "id": "msg_1"}]})", "input[0].type"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_file"}]}]})",
       "input[0].content[0].type"},
      {R"({"input": [{"role": "assistant", "content": "a"}]})", "input[0].role"},
      {R"({"input": [{"type": "function_call", "call_id": "a", "arguments": "{}"}]})",
       "input[0].name"},
      {R"({"input": [{"type": "function_call_output", "output": "a"}]})", "input[0].call_id"},
      {R"({"input": "a", "previous_response_id": "resp_1"})", "previous_response_id"},
      {R"({"input": "a", "conversation": "conv_1"})", "conversation"},
      {R"({"input": "a", "background": true})", "background"},
      {R"({"input": "a", "instructions": 4})", "instructions"},
      {R"({"input": "a", "max_output_tokens": 0})", "max_output_tokens"},
      {R"({"input": "a", "tools": [{"type": "web_search"}]})", "tools[0].type"},
      {R"({"input": "a", "tools": [{"type": "function"}]})", "tools[0].name"},
      {R"({"input": "a", "tool_choice": "required"})", "tool_choice"},
      {R"({"input": "a", "text": {"format": {"type": "xml"}}})", "text.format.type"},
      {R"({"input": "a", "text": {"format": {"type": "json_schema"}}})", "text.format.schema"},
      {R"({"input": "a", "top_logprobs": 21})", "top_logprobs"},
  };
  for (const Wrong& one : wrongs) {
    const auto call = parse_responses_call(one.body);
    ASSERT_TRUE(std::holds_alternative<ApiError>(call)) << one.body;
    EXPECT_EQ(std::get<ApiError>(call).status, 400) << one.body;
    EXPECT_EQ(std::get<ApiError>(call).param, one.param) << one.body;
  }
}

}  // namespace
}  // namespace fovea::serve
