// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/chat_answer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "fovea/answer_json.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

const AnswerHead kHead{"chatcmpl-1", 1'700'000'000, "tiny", "fp_1"};

AnswerToken token_of(std::string text, double logprob, std::vector<LikelyToken> likely = {}) {
  AnswerToken token;
  token.token = std::move(text);
  token.logprob = logprob;
  token.likely = std::move(likely);
  return token;
}

Answer answer_of(const std::string& text, const std::string& finish = "end") {
  Answer answer;
  answer.text = text;
  answer.finish = finish;
  // A token holds two bytes, which cuts characters.
  for (size_t i = 0; i < text.size(); i += 2)
    answer.tokens.push_back(token_of(text.substr(i, 2), -0.5, {{1, text.substr(i, 2), -0.5}}));
  Usage& usage = answer.trace.usage;
  usage = {.text_tokens = 10, .image_tokens = 96, .image_tokens_full = 2000, .patches = 384};
  usage.kept_tokens = 5;
  usage.answer_tokens = static_cast<int64_t>(answer.tokens.size());
  answer.trace.confidence = 0.75;
  answer.trace.prompt = "<|im_start|>";
  answer.trace.times = {{"look", 1.5}, {"first_token", 2.5}};
  Look& look = answer.trace.looks.emplace_back();
  look.image = {640, 480};
  look.canvas = {640, 480};
  look.plan = {"glance+look", 96, {{1, 0, 0}, {0, 1, 2}}};
  look.look = "mixed";
  look.saccades.push_back({.begin = 1, .end = 2, .confidence = 0.75});
  look.information = Map({1, 2}, 7);
  look.saccades[0].coupling = Map({1, 1}, 9);
  look.attention = {0.25F, 0.5F};
  if (!answer.tokens.empty()) answer.tokens[0].attention = {{0.1F, 0.0000004F}};
  return answer;
}

ChatCall call_of(int answers = 1, bool tools = false) {
  ChatCall call;
  call.request.options.answers = answers;
  if (tools) call.request.options.tools = "[{}]";
  return call;
}

Json whole(const ChatCall& call, const Answer& answer) {
  return Json::parse(chat_answer_json(kHead, call, answer));
}

// The chunks of some events, and whether [DONE] is behind them.
struct Events {
  std::vector<Json> chunks;
  bool done = false;
};
Events parse_events(std::string_view text) {
  Events events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    std::string_view line = text.substr(0, end);
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    EXPECT_EQ(line.find('\n'), std::string_view::npos);
    EXPECT_EQ(utf8_valid_bytes(line), line.size());
    EXPECT_FALSE(events.done) << "behind [DONE]: " << line;
    line.remove_prefix(6);
    if (line == "[DONE]")
      events.done = true;
    else
      events.chunks.push_back(Json::parse(line));
    text.remove_prefix(end + 2);
  }
  return events;
}

// An answer's chunks put together as openai-python does, in the form of a whole choice.
Json put_together(const std::vector<Json>& chunks, size_t index) {
  Json message = {{"role", nullptr}, {"content", nullptr}, {"refusal", nullptr}};
  Json logprobs;
  Json finish;
  for (const Json& chunk : chunks) {
    for (const Json& choice : chunk["choices"]) {
      if (choice["index"] != index) continue;
      EXPECT_TRUE(finish.is_null()) << "behind finish_reason: " << choice;
      const Json& delta = choice["delta"];
      if (delta.contains("role")) message["role"] = delta["role"];
      if (delta.contains("content"))
        message["content"] =
            (message["content"].is_null() ? "" : message["content"].get<std::string>()) +
            delta["content"].get<std::string>();
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        Json& calls = message["tool_calls"];
        const auto at = call["index"].get<size_t>();
        if (at == calls.size()) {
          calls.push_back(
              {{"id", call["id"]}, {"type", call["type"]}, {"function", call["function"]}});
        } else {
          Json& arguments = calls[at]["function"]["arguments"];
          arguments =
              arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
        }
      }
      if (!choice["logprobs"].is_null()) {
        if (logprobs.is_null()) logprobs = {{"content", Json::array()}, {"refusal", nullptr}};
        for (const Json& token : choice["logprobs"]["content"])
          logprobs["content"].push_back(token);
      }
      finish = choice["finish_reason"];
    }
  }
  // The first chunk says "", a whole answer of calls alone null: clients take either for nothing.
  if (message["content"].dump() == "\"\"" && message.contains("tool_calls"))
    message["content"] = nullptr;
  return {
      {"index", index}, {"message", message}, {"logprobs", logprobs}, {"finish_reason", finish}};
}

TEST(ChatAnswer, HasWhatClientsRead) {
  const Json json = whole(call_of(), answer_of("Blue."));
  EXPECT_EQ(json["id"], "chatcmpl-1");
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["created"], 1'700'000'000);
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["system_fingerprint"], "fp_1");
  EXPECT_EQ(json["choices"].dump(),
            R"([{"index":0,"message":{"role":"assistant","content":"Blue.","refusal":null},)"
            R"("logprobs":null,"finish_reason":"stop"}])");
  EXPECT_EQ(json["usage"].dump(),
            R"({"prompt_tokens":106,"completion_tokens":3,"total_tokens":109,)"
            R"("prompt_tokens_details":{"text_tokens":10,"image_tokens":96,"cached_tokens":5}})");
}

TEST(ChatAnswer, FinishReasons) {
  const std::pair<const char*, const char*> rows[] = {{"end", "stop"},
                                                      {"stop", "stop"},
                                                      {"length", "length"},
                                                      {"cancelled", "stop"},
                                                      {"deadline", "length"}};
  const std::string call_text = "<tool_call>{\"name\":\"f\"}</tool_call>";
  for (const auto& [finish, reason] : rows) {
    EXPECT_EQ(whole(call_of(), answer_of("a", finish))["choices"][0]["finish_reason"], reason);
    EXPECT_EQ(whole(call_of(1, true), answer_of(call_text, finish))["choices"][0]["finish_reason"],
              "tool_calls");
  }
  const Answer cut = answer_of("<tool_call>{\"name\":\"f\",\"argum", "length");
  EXPECT_EQ(whole(call_of(1, true), cut)["choices"][0]["finish_reason"], "length");
}

TEST(ChatAnswer, ToolCallsAreApartFromTheText) {
  const Answer answer =
      answer_of("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"é\"}}\n</tool_call>");
  const Json message = whole(call_of(1, true), answer)["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  ASSERT_EQ(message["tool_calls"].size(), 1u);
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"a\": \"é\"}");
  // Where no tools were given the text is what it is.
  const Json plain = whole(call_of(), answer)["choices"][0];
  EXPECT_EQ(plain["message"]["content"], answer.text);
  EXPECT_EQ(plain["finish_reason"], "stop");
}

TEST(ChatAnswer, SeveralAnswersAreChoices) {
  Answer answer = answer_of("a");
  answer.others = {answer_of("b", "length"), answer_of("c")};
  const Json choices = whole(call_of(3), answer)["choices"];
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[1]["index"], 1);
  EXPECT_EQ(choices[1]["message"]["content"], "b");
  EXPECT_EQ(choices[1]["finish_reason"], "length");
  EXPECT_EQ(choices[2]["message"]["content"], "c");
}

TEST(ChatAnswer, LogprobsAreNumbersAndText) {
  Answer answer = answer_of("");
  answer.tokens = {
      token_of("a", -0.5, {{1, "a", -0.5}, {2, "\xc3", -std::numeric_limits<double>::infinity()}})};
  ChatCall call = call_of();
  call.logprobs = true;
  EXPECT_EQ(
      whole(call, answer)["choices"][0]["logprobs"].dump(),
      R"({"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":)"
      R"([{"token":"a","logprob":-0.5,"bytes":[97]},)"
      "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-9999.0,\"bytes\":[195]}]}],\"refusal\":null}");
}

TEST(ChatAnswer, GazeHasTheShapeOfAskJson) {
  const Answer answer = answer_of("Blue.");
  ChatCall call = call_of();
  Json gaze = whole(call, answer)["fovea"];
  EXPECT_EQ(gaze["usage"]["image_tokens"], 96);
  EXPECT_EQ(gaze["usage"]["image_tokens_full"], 2000);
  EXPECT_FALSE(gaze["usage"].contains("memory")) << "of other requests, too";
  EXPECT_EQ(gaze["looks"][0]["cells"].dump(), "[[1,0,0],[0,1,2]]");
  EXPECT_EQ(gaze["looks"][0]["saccades"][0]["confidence"], 0.75);
  EXPECT_FALSE(gaze["looks"][0].contains("maps"));
  EXPECT_FALSE(gaze.contains("prompt"));
  EXPECT_FALSE(gaze.contains("answer_attention"));
  const Json asked = Json::parse(app::answer_json(answer, 3));
  EXPECT_EQ(gaze["looks"], asked["looks"]);
  EXPECT_EQ(gaze["confidence"], asked["confidence"]);
  EXPECT_EQ(asked["times_ms"].dump(), R"({"load":3.0,"look":1.5,"first_token":2.5})");
  EXPECT_EQ(gaze["times_ms"].dump(), R"({"look":1.5,"first_token":2.5})");

  call.trace = true;
  gaze = whole(call, answer)["fovea"];
  const Json traced = Json::parse(app::trace_json(answer, "What?", 3));
  EXPECT_EQ(gaze["looks"], traced["looks"]);
  EXPECT_EQ(gaze["prompt"], "<|im_start|>");
  EXPECT_EQ(gaze["looks"][0]["maps"]["information"].dump(), "[[7,7]]");
  EXPECT_EQ(gaze["looks"][0]["attention"].dump(), "[0.25,0.5]");
  EXPECT_EQ(gaze["answer_attention"], traced["answer_attention"]);
  ASSERT_EQ(gaze["answer_attention"].size(), 1u) << "of the tokens that have one";
  EXPECT_EQ(gaze["answer_attention"][0]["looks"].dump(), "[[0.1,0.0]]");
  EXPECT_EQ(gaze["answer_attention"][0]["token"], answer.tokens[0].token);
  EXPECT_EQ(gaze["looks"][0]["saccades"][0]["maps"]["coupling"].dump(), "[[9]]");
}

TEST(ChatStream, IsRoleTextFinishDone) {
  ChatStream stream(kHead, call_of());
  std::string text = stream.begin() + stream.text(0, "Bl") + stream.text(0, "") +
                     stream.text(0, "ue.") + stream.finish(answer_of("Blue."));
  const Events events = parse_events(text);
  EXPECT_TRUE(events.done);
  ASSERT_EQ(events.chunks.size(), 4u);
  const char* deltas[] = {R"({"role":"assistant","content":""})", R"({"content":"Bl"})",
                          R"({"content":"ue."})", "{}"};
  for (size_t i = 0; i < 4; ++i) {
    const Json& chunk = events.chunks[i];
    EXPECT_EQ(chunk["id"], "chatcmpl-1");
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["created"], 1'700'000'000);
    EXPECT_EQ(chunk["model"], "tiny");
    EXPECT_EQ(chunk["choices"][0]["delta"].dump(), deltas[i]);
    EXPECT_FALSE(chunk.contains("usage"));
    EXPECT_EQ(chunk.contains("fovea"), i == 3);
    EXPECT_EQ(chunk["choices"][0]["finish_reason"], i == 3 ? Json("stop") : Json());
  }
  EXPECT_EQ(events.chunks[3]["fovea"], whole(call_of(), answer_of("Blue."))["fovea"]);
}

TEST(ChatStream, UsageComesLastWhereItIsWanted) {
  ChatCall call = call_of(2);
  call.include_usage = true;
  call.trace = true;
  Answer answer = answer_of("a");
  answer.others = {answer_of("b")};
  ChatStream stream(kHead, call);
  const Events events = parse_events(stream.begin() + stream.text(1, "b") + stream.text(0, "a") +
                                     stream.finish(answer));
  EXPECT_TRUE(events.done);
  ASSERT_EQ(events.chunks.size(), 7u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(events.chunks[i].at("usage").is_null());
    EXPECT_FALSE(events.chunks[i].contains("fovea"));
  }
  EXPECT_EQ(events.chunks[6]["choices"].dump(), "[]");
  EXPECT_EQ(events.chunks[6]["usage"], whole(call, answer)["usage"]);
  EXPECT_EQ(events.chunks[6]["fovea"], whole(call, answer)["fovea"]);
}

TEST(ChatStream, AnErrorIsAnEvent) {
  ChatStream stream(kHead, call_of(1));
  EXPECT_EQ(stream.error({.status = 500, .message = "lost"}),
            "data: {\"error\":{\"message\":\"lost\",\"type\":\"server_error\",\"param\":null,"
            "\"code\":null}}\n\n");
}

TEST(ChatStream, AnswersThatAreMissingEnd) {
  ChatStream stream(kHead, call_of(3));
  const Events events = parse_events(stream.begin() + stream.finish(answer_of("")));
  EXPECT_TRUE(events.done);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(put_together(events.chunks, i)["finish_reason"], "stop") << i;
}

// Texts that a model may write, with calls and what only looks like them.
std::string random_text(std::mt19937& random) {
  const char* const kPieces[] = {
      "Hello",
      " ",
      "\n",
      "é",
      "日本",
      "😀",
      "<tool",
      "a < b",
      "</tool_call>",
      "<tool_call>",
      "\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"é</tool_call>\"}}\n</tool_call>",
      "<tool_call>{\"arguments\":{\"x\":[1,2]},\"name\":\"g\"}</tool_call>",
      "{\"name\": \"h\"}",
      "\"",
      "}"};
  std::string text;
  for (size_t pieces = random() % 8; pieces > 0; --pieces)
    text += kPieces[random() % std::size(kPieces)];
  return text;
}

// What a client puts together of the chunks is the whole answer, however it came.
TEST(ChatStream, ChunksAreTheWholeAnswer) {
  std::mt19937 random(23);
  for (int round = 0; round < 150; ++round) {
    ChatCall call = call_of(1 + static_cast<int>(random() % 3), random() % 4 != 0);
    call.logprobs = random() % 2 == 0;
    call.include_usage = random() % 2 == 0;
    call.parallel_tool_calls = random() % 4 != 0;
    const auto count = static_cast<size_t>(call.request.options.answers);
    std::vector<Answer> answers;
    const char* const kFinish[] = {"end", "stop", "length", "deadline", "cancelled"};
    for (size_t i = 0; i < count; ++i)
      answers.push_back(answer_of(random_text(random), kFinish[random() % 5]));
    ChatStream stream(kHead, call);
    std::string events = stream.begin();
    std::vector<size_t> sent(count);
    std::vector<size_t> tokens(count);
    while (true) {
      std::vector<int> open;
      for (size_t i = 0; i < count; ++i)
        if (sent[i] < answers[i].text.size()) open.push_back(static_cast<int>(i));
      if (open.empty()) break;
      const int i = open[random() % open.size()];
      const auto at = static_cast<size_t>(i);
      // Some tokens, then text; the engine cuts between characters.
      for (size_t more = random() % 3; more > 0 && tokens[at] < answers[at].tokens.size(); --more)
        stream.token(i, answers[at].tokens[tokens[at]++]);
      const std::string_view rest = std::string_view(answers[at].text).substr(sent[at]);
      const size_t bytes = utf8_valid_bytes(rest.substr(0, 4 + random() % 12));
      events += stream.text(i, rest.substr(0, bytes));
      sent[at] += bytes;
    }
    Answer answer = answers[0];
    answer.others.assign(answers.begin() + 1, answers.end());
    events += stream.finish(answer);
    const Events parsed = parse_events(events);
    const Json expected = whole(call, answer);
    EXPECT_TRUE(parsed.done);
    for (size_t i = 0; i < count; ++i) {
      Json choice = expected["choices"][i];
      // No token, no chunk that has some.
      if (answers[i].tokens.empty()) choice["logprobs"] = nullptr;
      EXPECT_EQ(put_together(parsed.chunks, i).dump(), choice.dump()) << answers[i].text;
    }
    EXPECT_EQ(parsed.chunks.back().contains("fovea"), call.include_usage || count == 1);
  }
}

}  // namespace
}  // namespace fovea::serve
