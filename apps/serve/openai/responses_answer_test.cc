// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/responses_answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

const AnswerHead kHead{"resp_1", 7, "tiny", "fovea-1"};
const char* const kCalls =
    "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

ChatCall call_with_tools() {
  ChatCall call;
  call.api = Api::kResponses;
  call.echo = R"({"instructions": null, "temperature": 0.0, "tools": []})";
  call.request.options.tools = R"([{"type": "function", "function": {"name": "weather"}}])";
  return call;
}

Answer answer_of(const std::string& text, const std::string& finish = "end") {
  Answer answer{.text = text, .finish = finish};
  answer.trace.usage.text_tokens = 5;
  answer.trace.usage.image_tokens = 3;
  answer.trace.usage.kept_tokens = 2;
  answer.trace.usage.answer_tokens = 4;
  return answer;
}

Json whole(const ChatCall& call, const Answer& answer) {
  return *parse_ordered_json(response_json(kHead, call, answer));
}

struct Event {
  std::string type;
  Json data;
};

std::vector<Event> events_of(const std::string& text) {
  std::vector<Event> events;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at);
    const size_t line = text.find('\n', at);
    Event event{text.substr(at + 7, line - at - 7),
                *parse_ordered_json(text.substr(line + 7, end - line - 7))};
    EXPECT_EQ(event.data["type"], event.type);
    EXPECT_EQ(event.data["sequence_number"], events.size());
    events.push_back(std::move(event));
    at = end + 2;
  }
  return events;
}

std::vector<Event> stream_of(const ChatCall& call, const Answer& answer, size_t cut) {
  ResponseStream stream(kHead, call);
  std::string text = stream.begin();
  for (size_t at = 0; at < answer.text.size(); at += cut)
    text += stream.text(0, std::string_view(answer.text).substr(at, cut));
  return events_of(text + stream.finish(answer));
}

TEST(ResponsesAnswer, AMessageAndUsage) {
  ChatCall call = call_with_tools();
  call.request.options.tools.clear();
  const Json response = whole(call, answer_of("Hello"));
  EXPECT_EQ(response["id"], "resp_1");
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["status"], "completed");
  ASSERT_EQ(response["output"].size(), 1u);
  EXPECT_EQ(response["output"][0]["type"], "message");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(response["usage"]["input_tokens"], 8);
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(response["usage"]["output_tokens"], 4);
  EXPECT_EQ(response["usage"]["total_tokens"], 12);
  EXPECT_TRUE(response["previous_response_id"].is_null());
  EXPECT_TRUE(response.contains("fovea"));
}

TEST(ResponsesAnswer, AnEmptyAnswerIsAMessage) {
  const Json response = whole(call_with_tools(), answer_of(""));
  ASSERT_EQ(response["output"].size(), 1u);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesAnswer, CallsAreItemsOfTheirOwn) {
  const Json output = whole(call_with_tools(), answer_of(kCalls))["output"];
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(output[1]["type"], "function_call");
  EXPECT_EQ(output[1]["name"], "weather");
  EXPECT_EQ(output[1]["arguments"], R"({"city": "Bern"})");
  EXPECT_EQ(output[2]["name"], "time");
  EXPECT_NE(output[1]["call_id"], output[2]["call_id"]);
}

TEST(ResponsesAnswer, WhatWasCutIsIncomplete) {
  const Json response = whole(call_with_tools(), answer_of("Hel", "length"));
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  const auto events = stream_of(call_with_tools(), answer_of("Hel", "length"), 1);
  EXPECT_EQ(events.back().type, "response.incomplete");
}

TEST(ResponseStream, EventsComeInOrder) {
  const auto events = stream_of(call_with_tools(), answer_of("Hello"), 100);
  std::vector<std::string> types;
  for (const Event& event : events) types.push_back(event.type);
  EXPECT_EQ(types, (std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.output_text.delta",
                       "response.output_text.done", "response.content_part.done",
                       "response.output_item.done", "response.completed"}));
  EXPECT_EQ(events[5].data["text"], "Hello");
}

// However the text is cut, deltas put together are what their ends say, and the response at the end
// is the one that would have come whole.
TEST(ResponseStream, DeltasAreTheWhole) {
  for (const std::string& finish : {std::string("end"), std::string("length")}) {
    const Answer answer = answer_of(kCalls, finish);
    for (const size_t cut : {1, 3, 7, 1000}) {
      const auto events = stream_of(call_with_tools(), answer, cut);
      std::vector<std::string> items;
      for (const Event& event : events) {
        if (event.type == "response.output_item.added") {
          EXPECT_EQ(event.data["output_index"], items.size());
          items.emplace_back();
        }
        if (event.type.ends_with(".delta")) {
          EXPECT_EQ(event.data["output_index"], items.size() - 1);
          items.back() += event.data["delta"].get<std::string>();
        }
        if (event.type == "response.function_call_arguments.done") {
          EXPECT_EQ(event.data["arguments"], items.back());
        }
        if (event.type == "response.output_text.done") {
          EXPECT_EQ(event.data["text"], items.back());
        }
      }
      EXPECT_EQ(items, (std::vector<std::string>{"Let me see.", R"({"city": "Bern"})", "{}"}));
      EXPECT_EQ(events.back().data["response"], whole(call_with_tools(), answer)) << cut;
    }
  }
}

TEST(ResponseStream, TokensComeWithTheirProbabilities) {
  ChatCall call = call_with_tools();
  call.logprobs = true;
  Answer answer = answer_of("ab");
  for (const char* text : {"a", "b", "<|im_end|>"}) {
    AnswerToken token;
    token.token = text;
    token.logprob = -1;
    answer.tokens.push_back(token);
  }
  ResponseStream stream(kHead, call);
  std::string text = stream.begin();
  for (size_t i = 0; i < 2; ++i) {
    stream.token(0, answer.tokens[i]);
    text += stream.text(0, answer.tokens[i].token);
  }
  stream.token(0, answer.tokens[2]);
  const auto events = events_of(text + stream.finish(answer));
  EXPECT_EQ(events[4].data["logprobs"][0]["token"], "a");
  EXPECT_EQ(events[5].data["logprobs"][0]["token"], "b");
  EXPECT_EQ(events.back().data["response"]["output"][0]["content"][0]["logprobs"].size(), 3u);
}

TEST(ResponseStream, AnErrorIsAnEvent) {
  ResponseStream stream(kHead, call_with_tools());
  (void)stream.begin();
  const std::string event = stream.error({.status = 500, .message = "lost"});
  EXPECT_EQ(event,
            "event: error\ndata: {\"type\":\"error\",\"sequence_number\":2,\"code\":null,"
            "\"message\":\"lost\",\"param\":null}\n\n");
}

}  // namespace
}  // namespace fovea::serve
