// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/chat_request.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/thread_time.h"
#include "base/utf8.h"
#include "serve/openai/read_json.h"
#include "serve/openai/test_chat_request.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

TEST(ErrorBody, HasTheTypeOfItsStatus) {
  const std::pair<int, const char*> types[] = {
      {400, "invalid_request_error"}, {401, "authentication_error"},
      {404, "not_found_error"},       {405, "invalid_request_error"},
      {413, "invalid_request_error"}, {422, "invalid_request_error"},
      {429, "rate_limit_error"},      {500, "server_error"},
      {501, "server_error"},          {503, "overloaded_error"}};
  for (const auto& [status, type] : types) {
    const Json body = Json::parse(error_body({.status = status, .message = "no"}));
    EXPECT_EQ(body,
              Json({{"error",
                     {{"message", "no"}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}}));
  }
  const Json body = Json::parse(error_body(wrong_param("n", "no", "too_many")));
  EXPECT_EQ(body["error"]["param"], "n");
  EXPECT_EQ(body["error"]["code"], "too_many");
}

TEST(ErrorBody, QuotesAnything) {
  const ApiError error{.message = std::string(10'000, 'x') + "\xff\n\"\x01",
                       .param = "logit_bias.\xfe\n"};
  const Json body = Json::parse(error_body(error));
  const auto message = body["error"]["message"].get<std::string>();
  EXPECT_LE(message.size(), 500u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(utf8_valid_bytes(message), message.size());
  EXPECT_EQ(body["error"]["param"], "logit_bias.\\xfe ");
}

TEST(ParseChatCall, AQuestionAlone) {
  const ChatCall call = take(body_with(""));
  EXPECT_EQ(call.model, "");
  ASSERT_EQ(call.request.messages.size(), 1u);
  EXPECT_EQ(call.request.messages[0].role, "user");
  ASSERT_EQ(call.request.messages[0].parts.size(), 1u);
  EXPECT_EQ(call.request.messages[0].parts[0].image, -1);
  EXPECT_EQ(call.request.messages[0].parts[0].text, "Hello");
  const AskOptions defaults;
  EXPECT_EQ(call.request.options.max_tokens, ChatLimits().default_tokens);
  EXPECT_EQ(call.request.options.temperature, 0);
  EXPECT_EQ(call.request.options.budget_tokens, defaults.budget_tokens);
  EXPECT_EQ(call.request.options.plan, defaults.plan);
  EXPECT_FALSE(call.stream);
  EXPECT_TRUE(call.pictures.empty());
  EXPECT_TRUE(call.parallel_tool_calls);
  EXPECT_EQ(call.request.options.enable_thinking, std::nullopt);
}

struct Good {
  const char* keys;
  std::function<bool(const ChatCall&)> holds;
};

TEST(ParseChatCall, TakesEveryKey) {
  using C = const ChatCall&;
  const Good rows[] = {
      {R"("model":"tiny")", [](C c) { return c.model == "tiny"; }},
      {R"("max_tokens":7)", [](C c) { return c.request.options.max_tokens == 7; }},
      {R"("max_tokens":7.0)", [](C c) { return c.request.options.max_tokens == 7; }},
      {R"("max_completion_tokens":9,"max_tokens":7)",
       [](C c) { return c.request.options.max_tokens == 9; }},
      {R"("max_tokens":7,"max_completion_tokens":9)",
       [](C c) { return c.request.options.max_tokens == 9; }},
      {R"("min_tokens":5000)",
       [](C c) {
         return c.request.options.least_tokens == 5000 && c.request.options.max_tokens == 5000;
       }},
      {R"("temperature":1.5)", [](C c) { return c.request.options.temperature == 1.5; }},
      {R"("temperature":2)", [](C c) { return c.request.options.temperature == 2; }},
      {R"("top_p":0.25)", [](C c) { return c.request.options.top_p == 0.25; }},
      {R"("top_k":40)", [](C c) { return c.request.options.top_k == 40; }},
      {R"("top_k":-1)", [](C c) { return c.request.options.top_k == 0; }},
      {R"("top_k":0)", [](C c) { return c.request.options.top_k == 0; }},
      {R"("min_p":0.5)", [](C c) { return c.request.options.min_p == 0.5; }},
      {R"("seed":-1)", [](C c) { return c.request.options.seed == UINT64_MAX; }},
      {R"("seed":9223372036854775807)",
       [](C c) { return c.request.options.seed == uint64_t{INT64_MAX}; }},
      {R"("stop":"END")",
       [](C c) { return c.request.options.stop == std::vector<std::string>{"END"}; }},
      {R"("stop":["a","b","c","d"])", [](C c) { return c.request.options.stop.size() == 4; }},
      {R"("stop":[])", [](C c) { return c.request.options.stop.empty(); }},
      {R"("n":16)", [](C c) { return c.request.options.answers == 16; }},
      {R"("logprobs":true)",
       [](C c) { return c.logprobs && c.request.options.likely_tokens == 0; }},
      {R"("logprobs":true,"top_logprobs":20)",
       [](C c) { return c.top_logprobs == 20 && c.request.options.likely_tokens == 20; }},
      {R"("top_logprobs":0)", [](C c) { return !c.logprobs; }},
      {R"("frequency_penalty":-2)", [](C c) { return c.request.options.frequency_penalty == -2; }},
      {R"("presence_penalty":2)", [](C c) { return c.request.options.presence_penalty == 2; }},
      {R"("repetition_penalty":1.25)",
       [](C c) { return c.request.options.repetition_penalty == 1.25; }},
      {R"("logit_bias":{"3":-100,"15":0.5})",
       [](C c) {
         return c.request.options.logit_bias == std::vector<TokenBias>{{3, -100}, {15, 0.5F}};
       }},
      {R"("ignore_eos":true)", [](C c) { return c.request.options.ignore_end; }},
      {R"("stream":true)", [](C c) { return c.stream && !c.include_usage; }},
      {R"("stream":true,"stream_options":{"include_usage":true})",
       [](C c) { return c.stream && c.include_usage; }},
      {R"("stream":true,"stream_options":{"other":1})", [](C c) { return !c.include_usage; }},
      {R"("response_format":{"type":"text"})", [](C c) { return c.format == AnswerFormat::kText; }},
      {R"("response_format":{"type":"json_object"})",
       [](C c) { return c.format == AnswerFormat::kJsonObject; }},
      {R"("response_format":{"type":"json_schema","json_schema":)"
       R"({"name":"n","strict":true,"schema":{"type":"object","a":1}}})",
       [](C c) {
         return c.format == AnswerFormat::kJsonSchema && c.schema == R"({"type":"object","a":1})";
       }},
      {R"("parallel_tool_calls":false)", [](C c) { return !c.parallel_tool_calls; }},
      {R"("priority":-3)", [](C c) { return c.request.priority == 3; }},
      {R"("priority":2147483647)", [](C c) { return c.request.priority == -INT_MAX; }},
      {R"("priority":-2147483648)", [](C c) { return c.request.priority == INT_MAX; }},
      {R"("cache_salt":"mine")", [](C c) { return c.request.options.salt == "mine"; }},
      {R"("chat_template_kwargs":{"enable_thinking":false})",
       [](C c) {
         return c.request.options.enable_thinking == false &&
                c.request.options.template_options.empty();
       }},
      {R"("chat_template_kwargs":{"enable_thinking":null,"tone":"dry","depth":2,"other":[]})",
       [](C c) {
         return !c.request.options.enable_thinking &&
                c.request.options.template_options == R"({"tone":"dry","depth":2,"other":[]})";
       }},
      {R"("modalities":["text"])", [](C c) { return c.model.empty(); }},
      {R"("fovea":{"budget":128,"looks":3,"plan":"quadtree","look":"crops","balance":"sum",)"
       R"("sure":0.5,"trace":true,"attention":"local3","attention_text":"prefix","kv":"int8",)"
       R"("relook":0.25,"unknown":1})",
       [](C c) {
         const AskOptions& o = c.request.options;
         return o.budget_tokens == 128 && o.looks == 3 && o.plan == "quadtree" &&
                o.look == "crops" && o.balance == "sum" && o.sure == 0.5 && c.trace &&
                o.attention && o.answer_attention && o.tower_attention == "local3" &&
                o.text_attention == "prefix" && o.kv == "int8" && o.relook == 0.25;
       }},
      // Ignored, whatever they hold.
      {R"("user":1,"metadata":[],"store":true,"service_tier":"x","prompt_cache_key":"k",)"
       R"("safety_identifier":{},"verbosity":"low","reasoning_effort":"high","what":{"a":[1]})",
       [](C c) { return c.request.messages.size() == 1; }},
  };
  for (const Good& row : rows) EXPECT_TRUE(row.holds(take(body_with(row.keys)))) << row.keys;
}

// 64 random bits: that two are equal is as good as impossible.
TEST(ParseChatCall, DrawsASeedWhereNoneIsGiven) {
  const auto seed_of = [](const char* keys) { return take(body_with(keys)).request.options.seed; };
  EXPECT_NE(seed_of(R"("temperature":1)"), seed_of(R"("temperature":1)"));
  EXPECT_NE(seed_of(R"("seed":null)"), seed_of(R"("seed":null)"));
  EXPECT_EQ(seed_of(R"("seed":0)"), 0u);
}

// As in vLLM the lower number is handled earlier; the engine starts the higher one first.
TEST(ParseChatCall, TheLowerPriorityGoesFirst) {
  const auto first = take(body_with(R"("priority":-1)"));
  const auto later = take(body_with(R"("priority":1)"));
  EXPECT_GT(first.request.priority, later.request.priority);
}

TEST(ParseChatCall, NullIsNotGiven) {
  for (const char* key : {"model",
                          "max_tokens",
                          "max_completion_tokens",
                          "min_tokens",
                          "temperature",
                          "top_p",
                          "top_k",
                          "min_p",
                          "seed",
                          "stop",
                          "n",
                          "logprobs",
                          "top_logprobs",
                          "frequency_penalty",
                          "presence_penalty",
                          "repetition_penalty",
                          "logit_bias",
                          "ignore_eos",
                          "stream",
                          "stream_options",
                          "response_format",
                          "tools",
                          "tool_choice",
                          "parallel_tool_calls",
                          "priority",
                          "cache_salt",
                          "chat_template_kwargs",
                          "functions",
                          "function_call",
                          "audio",
                          "modalities",
                          "web_search_options",
                          "fovea"}) {
    const ChatCall call = take(body_with("\"" + std::string(key) + "\":null"));
    EXPECT_EQ(call.request.options.max_tokens, ChatLimits().default_tokens) << key;
  }
  const AskOptions options =
      options_of(R"("fovea":{"budget":null,"looks":null,"plan":null,"look":null,"balance":null,)"
                 R"("sure":null,"fixations":null,"regions":null,"trace":null,"attention":null,)"
                 R"("attention_text":null})");
  EXPECT_EQ(options.plan, AskOptions().plan);
}

TEST(ParseChatCall, RefusesAWrongValueAndNamesItsKey) {
  const Bad rows[] = {
      {R"("model":1)", "model"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":"7")", "max_tokens"},
      {R"("max_tokens":true)", "max_tokens"},
      {R"("max_tokens":1e300)", "max_tokens"},
      {R"("max_tokens":18446744073709551615)", "max_tokens"},
      {R"("max_tokens":99999999999999999999)", "max_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"},
      {R"("max_completion_tokens":5,"max_tokens":[])", "max_tokens"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":8,"max_tokens":7)", "min_tokens"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"NaN")", "temperature"},
      {R"("temperature":[1])", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.01)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("min_p":-1)", "min_p"},
      {R"("min_p":2)", "min_p"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":9223372036854775808)", "seed"},
      {R"("seed":"x")", "seed"},
      {R"("stop":1)", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop"},
      {R"("stop":["a",1])", "stop"},
      {R"("stop":["a","b","c","d","e"])", "stop"},
      {R"("n":0)", "n"},
      {R"("n":17)", "n"},
      {R"("n":1000000000)", "n"},
      {R"("logprobs":1)", "logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":-1)", "top_logprobs"},
      {R"("logprobs":false,"top_logprobs":1)", "top_logprobs"},
      {R"("top_logprobs":1)", "top_logprobs"},
      {R"("frequency_penalty":2.5)", "frequency_penalty"},
      {R"("presence_penalty":-2.5)", "presence_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"1.5":1})", "logit_bias"},
      {R"("logit_bias":{"":1})", "logit_bias"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias"},
      {R"("logit_bias":{"7":101})", "logit_bias.7"},
      {R"("logit_bias":{"7":"a"})", "logit_bias.7"},
      {R"("logit_bias":{"7":null})", "logit_bias.7"},
      {R"("ignore_eos":"yes")", "ignore_eos"},
      {R"("stream":1)", "stream"},
      {R"("stream":"true")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":false,"stream_options":{})", "stream_options"},
      {R"("stream":true,"stream_options":1)", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("response_format":"json")", "response_format"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":{"type":1})", "response_format.type"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":[]})",
       "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":true}})",
       "response_format.json_schema.schema"},
      {R"("parallel_tool_calls":1)", "parallel_tool_calls"},
      {R"("priority":1.5)", "priority"},
      {R"("priority":2147483648)", "priority"},
      {R"("cache_salt":5)", "cache_salt"},
      {R"("chat_template_kwargs":1)", "chat_template_kwargs"},
      {R"("chat_template_kwargs":{"enable_thinking":1})", "chat_template_kwargs.enable_thinking"},
      {R"("chat_template_kwargs":{"documents":[]})", "chat_template_kwargs.documents"},
      {R"("chat_template_kwargs":{"a":1,"tools":null})", "chat_template_kwargs.tools"},
      {R"("chat_template_kwargs":{"add_generation_prompt":false})",
       "chat_template_kwargs.add_generation_prompt"},
      {R"("chat_template_kwargs":{"bos_token":"x"})", "chat_template_kwargs.bos_token"},
      {R"("functions":[])", "functions"},
      {R"("function_call":"auto")", "function_call"},
      {R"("audio":{"voice":"a"})", "audio"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("modalities":"text")", "modalities"},
      {R"("web_search_options":{})", "web_search_options"},
      {R"("fovea":[])", "fovea"},
      {R"("fovea":{"budget":0})", "fovea.budget"},
      {R"("fovea":{"budget":"96"})", "fovea.budget"},
      {R"("fovea":{"looks":0})", "fovea.looks"},
      {R"("fovea":{"plan":1})", "fovea.plan"},
      {R"("fovea":{"look":false})", "fovea.look"},
      {R"("fovea":{"balance":{}})", "fovea.balance"},
      {R"("fovea":{"sure":1.5})", "fovea.sure"},
      {R"("fovea":{"attention":1})", "fovea.attention"},
      {R"("fovea":{"attention_text":[]})", "fovea.attention_text"},
      {R"("fovea":{"trace":1})", "fovea.trace"},
      {R"("fovea":{"fixations":1})", "fovea.fixations"},
      {R"("fovea":{"fixations":[[1,2]]})", "fovea.fixations"},
      {R"("fovea":{"regions":[[[1,2,3,4]]]})", "fovea.regions"},
      {R"("messages":null)", "messages"},
      {R"("messages":[])", "messages"},
      {R"("messages":"Hello")", "messages"},
      {R"("messages":{"role":"user"})", "messages"},
  };
  for (const Bad& row : rows) {
    const ApiError error = refuse(body_with(row.keys));
    EXPECT_EQ(error.param, row.param) << row.keys << ": " << error.message;
  }
}

TEST(ParseChatCall, RefusesABodyThatIsNoObject) {
  const std::string deep(100'000, '[');
  std::string deep_keys;
  for (int i = 0; i < 100'000; ++i) deep_keys += "{\"a\":";
  for (const std::string& body : {std::string(),
                                  std::string("  \n"),
                                  std::string("[]"),
                                  std::string("1"),
                                  std::string("null"),
                                  std::string("\"a\""),
                                  std::string("{"),
                                  std::string("{\"messages\":"),
                                  std::string("not JSON"),
                                  std::string("{} {}"),
                                  deep,
                                  deep_keys,
                                  body_with(R"("temperature":NaN)"),
                                  body_with(R"("temperature":Infinity)"),
                                  body_with(R"("temperature":1e999)"),
                                  body_with(R"("user":"\ud800")"),
                                  body_with("\"user\":\"\xff\""),
                                  body_with("\"user\":\"\xc0\x80\""),
                                  body_with(R"("n":1,"n":2)"),
                                  body_with("") + std::string(1, '\0'),
                                  body_with("") + std::string("\0 more", 6),
                                  std::string("\0{}", 3),
                                  body_with(std::string("\"user\":\"a\0b\"", 12))}) {
    const ApiError error = refuse(body);
    EXPECT_EQ(error.param, "") << error.message;
    EXPECT_TRUE(Json::accept(error_body(error)));
  }
}

TEST(ParseChatCall, RefusesTooMuchBeforeItCosts) {
  std::string many = "[";
  for (int i = 0; i < 1'000'000; ++i) many += R"({"role":"user","content":"x\"\\"},)";
  many.back() = ']';
  const std::string body = R"({"model":"a\"b",)" + body_of(many).substr(1);
  const std::string deep = body_with("\"user\":[" + std::string(5'000'000, '[') + "]");
  const double start = thread_seconds();
  EXPECT_TRUE(Json::accept(body));
  const double reading = thread_seconds() - start;
  EXPECT_EQ(refuse(body).param, "messages");
  EXPECT_EQ(refuse(deep).param, "user");
  EXPECT_LT(thread_seconds() - start - reading, reading);
  // Fewer, but over the limit of messages.
  EXPECT_EQ(refuse(body_of(R"([{"role":"user","content":"a"},{"role":"user","content":"b"}])"),
                   {.messages = 1})
                .param,
            "messages");
}

// Pictures go around the parser; nobody may see that.
TEST(ParseChatCall, TakesLongStringsAsTheyAre) {
  const std::string url = "data:image/png;base64," + std::string(100'000, 'A');
  const Json part = {{"type", "image_url"}, {"image_url", {{"url", url}}}};
  const Json text = {{"type", "text"}, {"text", url + "\\ \xc3\xa9\n"}};
  const Json plain = {{"type", "text"}, {"text", url + "B"}};
  const Json message = {{"role", "user"}, {"content", {part, text, plain, part}}};
  const Json body = {{"user", {{url, 1}}}, {"cache_salt", url}, {"messages", {message}}};
  for (const int indent : {-1, 2}) {
    const ChatCall call = take(body.dump(indent));
    ASSERT_EQ(call.pictures.size(), 2u);
    EXPECT_EQ(call.pictures[0].url, url);
    EXPECT_EQ(call.pictures[1].url, url);
    const auto& parts = call.request.messages.at(0).parts;
    EXPECT_EQ(parts.at(1).text, url + "\\ \xc3\xa9\n");
    EXPECT_EQ(parts.at(2).text, url + "B");
    EXPECT_EQ(call.request.options.salt, url);
    EXPECT_TRUE(call.pictures[0].long_url.empty()) << "one is no picture's, so all are copies";
  }
  const std::string open = R"({"model":")" + url;
  for (const std::string& wrong :
       {open, open + "\"", open + R"(",})", open + "\x01\"}", open + R"(":1})", open + "\xff\"}"})
    EXPECT_NE(refuse(wrong).message.find("at byte 10"), std::string::npos)
        << "of the whole body: " << refuse(wrong).message;
}

// Megabytes that would be copied for each request.
TEST(ParseChatCall, LongPicturesStayInTheBody) {
  const std::string url = "data:image/png;base64," + std::string(100'000, 'A');
  const std::string other = "data:image/png;base64," + std::string(5'000, 'B');
  std::string body =
      body_with(shows({R"("image_url":{"url":")" + url + R"("},"uuid":"u")",
                       R"("image_url":{"url":"data:,"})", R"("image_url":")" + other + R"(")"}));
  const char* const begin = body.data();
  const char* const end = begin + body.size();
  auto parsed = parse_chat_call(std::move(body));
  const ChatCall& call = std::get<ChatCall>(parsed);
  ASSERT_EQ(call.pictures.size(), 3u);
  const std::string* const expected[] = {&url, nullptr, &other};
  for (size_t i = 0; i < 3; ++i) {
    const PictureName& picture = call.pictures[i];
    if (expected[i] == nullptr) {
      EXPECT_EQ(picture.url, "data:,");
      EXPECT_TRUE(picture.long_url.empty());
      continue;
    }
    EXPECT_TRUE(picture.url.empty());
    EXPECT_EQ(std::string(picture.long_url.begin(), picture.long_url.end()), *expected[i]);
    EXPECT_TRUE(picture.long_url.data() > begin && picture.long_url.data() < end) << "a copy";
  }
  EXPECT_EQ(call.pictures[0].body, call.pictures[2].body);
}

// What openai-python and LangChain send, as they send it.
TEST(ParseChatCall, TakesWhatClientsSend) {
  take(R"({"messages":[{"content":"Hello","role":"user"}],"model":"gpt-4o-mini","n":1,
    "stream":false,"temperature":0.7,"max_completion_tokens":64})");
  take(R"({"messages":[{"role":"user","content":"q"},{"content":null,"role":"assistant",
    "tool_calls":[{"type":"function","id":"abc123","function":{"name":"my_adder_tool",
    "arguments":"{\"a\": 1, \"b\": 2}"}}]},{"content":"{\"result\": 3}","role":"tool",
    "tool_call_id":"abc123"}],"model":"m","stream":true,"stream_options":{"include_usage":true},
    "tools":[{"type":"function","function":{"name":"my_adder_tool","description":"Adds",
    "parameters":{"properties":{"a":{"type":"integer"}},"required":["a"],"type":"object"}}}]})");
  take(R"({"model":"m","messages":[{"role":"user","content":"q"}],"response_format":{"type":
    "json_schema","json_schema":{"schema":{"properties":{"name":{"title":"Name","type":"string"}},
    "required":["name"],"title":"Event","type":"object","additionalProperties":false},
    "name":"Event","strict":true}},"parallel_tool_calls":false})");
}

// Small changes to bodies that are good: a piece doubled, lost, swapped, or a byte changed.
std::string mutate(std::string body, std::mt19937& random) {
  const char* const kPieces[] = {"null",
                                 "[]",
                                 "{}",
                                 "-1",
                                 "1e309",
                                 "\"\"",
                                 "true",
                                 "\\",
                                 "\"",
                                 "\xff",
                                 "1.5",
                                 ",",
                                 ":",
                                 "[",
                                 "}",
                                 "NaN",
                                 "\\ud800",
                                 "\"a\":1,",
                                 "9223372036854775808"};
  for (int changes = 1 + static_cast<int>(random() % 3); changes > 0 && !body.empty(); --changes) {
    const size_t at = random() % body.size();
    const size_t length = std::min<size_t>(random() % 12, body.size() - at);
    switch (random() % 5) {
      case 0:
        body.erase(at, length);
        break;
      case 1:
        body.insert(at, body.substr(random() % body.size(), length));
        break;
      case 2:
        body[at] = static_cast<char>(random() % 256);
        break;
      case 3:
        body.insert(at, kPieces[random() % std::size(kPieces)]);
        break;
      default: {  // a value for another
        const size_t begin = body.find(':', at);
        if (begin == std::string::npos) break;
        const size_t end = std::min(body.find_first_of(",}]", begin), body.size());
        body.replace(begin + 1, end - begin - 1, kPieces[random() % std::size(kPieces)]);
      }
    }
  }
  return body;
}

TEST(ParseChatCall, MutationsAreTakenOrRefused) {
  const std::string bodies[] = {
      body_with(
          R"("model":"m","max_tokens":7,"temperature":0.5,"top_p":0.5,"top_k":3,"seed":4,"n":2,)"
          R"("stop":["a","b"],"logprobs":true,"top_logprobs":3,"logit_bias":{"3":-100},)"
          R"("stream":true,"stream_options":{"include_usage":true},"priority":1,)"
          R"("response_format":{"type":"json_schema","json_schema":{"schema":{"a":1}}})"),
      body_with(std::string(kTools) + R"(,"tool_choice":{"function":{"name":"f"}})"),
      body_with(R"("fovea":{"budget":9,"fixations":[[[1,2]],[]],"regions":[[[1,2,3,4]]]},)" +
                shows({R"("image_url":{"url":"a","detail":"low"})", R"("uuid":"b")"})),
      body_of(R"([{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1",)"
              R"("function":{"name":"f","arguments":"{\"a\":1}"}}]},)"
              R"({"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"b"}]}])"),
  };
  std::mt19937 random(16);
  int taken = 0;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string body = mutate(bodies[random() % std::size(bodies)], random);
    const auto call = parse_chat_call(body);
    if (const auto* error = std::get_if<ApiError>(&call)) {
      ++refused;
      EXPECT_EQ(error->status, 400) << body;
      EXPECT_LE(error->message.size(), 2000u) << body;
      EXPECT_TRUE(Json::accept(error_body(*error))) << body;
    } else {
      ++taken;
      EXPECT_FALSE(std::get<ChatCall>(call).request.messages.empty()) << body;
    }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 1000);
}

// Long URLs go around the parser; what stands for them cannot be written by a client.
TEST(ParseBody, NoTextIsTakenForAPicture) {
  const std::string url = "data:image/png;base64," + std::string(10'000, 'A');
  const auto parsed = parse_body(R"({"url":")" + url +
                                 R"(","texts":["data:\u007f0","data:\u007f0000/0","data:"]})");
  const Json* body = std::get_if<Json>(&parsed);
  ASSERT_NE(body, nullptr);
  EXPECT_EQ((*body)["url"], url);
  EXPECT_EQ((*body)["texts"], Json({"data:\x7f"
                                    "0",
                                    "data:\x7f"
                                    "0000/0",
                                    "data:"}));
}

}  // namespace
}  // namespace fovea::serve
