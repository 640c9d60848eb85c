// SPDX-License-Identifier: Apache-2.0
// Options, limits and errors of asking.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/test_ask.h"
#include "places.h"

namespace fovea {
namespace {

using test::ask_path;
using test::expect_same_answer;
using test::ids_of;
using test::load_engine;

class AskTest : public testing::Test {
 protected:
  Result<Answer> ask(const AskOptions& options, const std::string& question = "What is this?",
                     const OnText& on_text = nullptr) {
    return engine_.ask({ask_path("wide.png")}, question, options, on_text);
  }
  void expect_refused(const AskOptions& options, const std::string& must_say,
                      const std::string& question = "What is this?") {
    const auto answer = ask(options, question);
    ASSERT_FALSE(answer) << must_say;
    EXPECT_EQ(answer.error().kind, Error::Kind::kBadInput);
    EXPECT_NE(answer.error().message.find(must_say), std::string::npos) << answer.error().message;
  }

  Engine engine_ = load_engine();
};

TEST_F(AskTest, TheTextStreamsInPiecesThatMakeTheAnswer) {
  AskOptions options;
  options.max_tokens = 40;
  options.ignore_end = true;
  std::string streamed;
  int pieces = 0;
  const auto answer = ask(options, "What is this?", [&](std::string_view piece) {
    pieces += piece.empty() ? 0 : 1;
    streamed += piece;
    return true;
  });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(streamed, answer->text);
  EXPECT_GT(pieces, 5);
  EXPECT_EQ(answer->tokens.size(), 40u);
  EXPECT_EQ(answer->finish, "length");
}

TEST_F(AskTest, LogitsAreWhatTokensAreDrawnFrom) {
  AskOptions options;
  options.max_tokens = 12;
  options.ignore_end = true;
  std::vector<int> best;
  options.on_logits = [&](std::span<const float> logits) {
    best.push_back(
        static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  };
  const auto answer = ask(options);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(best, ids_of(*answer));
}

TEST_F(AskTest, AStopStringEndsTheAnswerBeforeIt) {
  AskOptions options;
  options.max_tokens = 40;
  options.ignore_end = true;
  const Answer whole = *ask(options);
  ASSERT_GT(whole.text.size(), 12u);
  const std::string stop = whole.text.substr(whole.text.size() / 2, 3);
  options.stop = {"never said", stop};
  std::string streamed;
  const auto cut = ask(options, "What is this?", [&](std::string_view piece) {
    streamed += piece;
    return true;
  });
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->finish, "stop");
  EXPECT_EQ(cut->text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(streamed, cut->text);
  EXPECT_LT(cut->tokens.size(), whole.tokens.size());
}

TEST_F(AskTest, TheModelsOwnEndEndsTheAnswer) {
  AskOptions options;
  options.max_tokens = 2000;
  options.temperature = 3;  // so that the end comes up among 720 tokens before long
  const auto answer = ask(options);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->finish, "end");
  EXPECT_TRUE(answer->tokens.back().id == 702 || answer->tokens.back().id == 700);
  EXPECT_EQ(answer->text.find("<|im_end|>"), std::string::npos);
}

TEST_F(AskTest, ASeedDecidesWhatIsDrawn) {
  AskOptions options;
  options.max_tokens = 24;
  options.ignore_end = true;
  options.temperature = 1;
  options.seed = 1;
  const Answer one = *ask(options);
  expect_same_answer(*ask(options), one, 0.0);
  options.seed = 2;
  EXPECT_NE(ids_of(*ask(options)), ids_of(one));
  options.top_k = 1;
  const Answer greedy = *ask(options);
  options.temperature = 0;
  options.top_k = 0;
  EXPECT_EQ(ids_of(*ask(options)), ids_of(greedy)) << "the best of one is the best of all";
}

TEST_F(AskTest, ABiasBansATokenAndPenaltiesKeepTokensFromComingBack) {
  AskOptions options;
  options.max_tokens = 40;
  options.ignore_end = true;
  const std::vector<int> plain = ids_of(*ask(options));
  options.logit_bias = {{plain[0], -100}, {5, 0}};
  const std::vector<int> banned = ids_of(*ask(options));
  EXPECT_EQ(std::count(banned.begin(), banned.end(), plain[0]), 0);
  options.logit_bias = {{5, 100}};
  EXPECT_EQ(ids_of(*ask(options)), std::vector<int>(40, 5));
  options.presence_penalty = 2;
  EXPECT_EQ(ids_of(*ask(options)), std::vector<int>(40, 5)) << "100 is more than 2";
  // 2 less each time: before long a token of the model's own is better.
  options.logit_bias = {{5, 60}};
  options.frequency_penalty = 2;
  const std::vector<int> penalised = ids_of(*ask(options));
  EXPECT_GT(std::count(penalised.begin(), penalised.end(), 5), 20);
  EXPECT_LT(std::count(penalised.begin(), penalised.end(), 5), 40);
}

TEST_F(AskTest, AnAnswerDoesNotEndBeforeItsLeastTokens) {
  AskOptions options;
  options.max_tokens = 30;
  options.logit_bias = {{702, 100}};  // an end of answer, which comes up at once
  const Answer at_once = *ask(options);
  EXPECT_EQ(ids_of(at_once), std::vector{702});
  options.least_tokens = 7;
  const Answer later = *ask(options);
  EXPECT_EQ(later.finish, "end");
  ASSERT_EQ(later.tokens.size(), 8u);
  EXPECT_EQ(later.tokens.back().id, 702);
  for (size_t i = 0; i < 7; ++i)
    EXPECT_TRUE(later.tokens[i].id != 702 && later.tokens[i].id != 700);
  // With ignore_end the end may be drawn after them, and is a token like any other.
  options.ignore_end = true;
  const std::vector<int> on = ids_of(*ask(options));
  ASSERT_EQ(on.size(), 30u);
  EXPECT_EQ(std::find(on.begin(), on.end(), 702) - on.begin(), 7);
}

TEST_F(AskTest, AMaskDecidesWhatMayComeNext) {
  AskOptions options;
  options.max_tokens = 12;
  options.ignore_end = true;
  options.temperature = 1;
  std::vector<int> seen;
  options.mask = [&](std::span<const int> answer, std::span<uint64_t> allowed) {
    seen.assign(answer.begin(), answer.end());
    const uint64_t every_other = answer.size() % 2 == 0 ? 0x5555555555555555 : 0xAAAAAAAAAAAAAAAA;
    for (uint64_t& word : allowed) word = every_other;
  };
  const std::vector<int> ids = ids_of(*ask(options));
  ASSERT_EQ(ids.size(), 12u);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i] % 2, static_cast<int>(i % 2)) << i;
  EXPECT_EQ(seen, std::vector<int>(ids.begin(), ids.end() - 1));

  options.mask = [](std::span<const int> answer, std::span<uint64_t> allowed) {
    if (answer.size() == 3) std::fill(allowed.begin(), allowed.end(), 0);
  };
  expect_refused(options, "choosing token 4 of the answer: the mask allows none of the 720 tokens");
}

TEST_F(AskTest, LikelyTokensAreInOrderAndHoldTheChosenOne) {
  AskOptions options;
  options.max_tokens = 5;
  options.likely_tokens = 720;
  const Answer answer = *ask(options);
  for (const AnswerToken& token : answer.tokens) {
    ASSERT_EQ(token.likely.size(), 720u);
    double sum = 0;
    for (size_t i = 0; i < token.likely.size(); ++i) {
      sum += std::exp(token.likely[i].logprob);
      EXPECT_LE(token.likely[i].logprob, i > 0 ? token.likely[i - 1].logprob : 0);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_EQ(token.likely[0].id, token.id);
    EXPECT_EQ(token.likely[0].logprob, token.logprob);
  }
}

TEST_F(AskTest, TheTraceHoldsWhatTheAnswerRestsOn) {
  AskOptions options;
  options.budget_tokens = 10;
  options.max_tokens = 3;
  options.attention = true;
  options.draw = true;
  const Answer answer = *ask(options);
  const Trace& trace = answer.trace;
  ASSERT_EQ(trace.looks.size(), 1u);
  const Look& look = trace.looks[0];
  EXPECT_EQ(look.image, (Size{224, 96}));
  EXPECT_EQ(look.plan.maker, "glance+look");
  EXPECT_LE(look.plan.tokens(), 10);
  EXPECT_EQ(look.tokens_full, 21);
  EXPECT_GT(look.picture.size.width_px, 0);
  EXPECT_EQ(look.relevance.grid, (Grid{3, 7}));
  ASSERT_EQ(look.attention.size(), look.plan.cells.size());
  double sum = 0;
  for (const float mass : look.attention) sum += mass;
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 1);
  EXPECT_EQ(trace.usage.image_tokens, look.plan.tokens());
  EXPECT_EQ(trace.usage.patches, 4 * look.plan.tokens());
  EXPECT_EQ(trace.usage.image_tokens_full, 21);
  EXPECT_GT(trace.kv_bytes, 0);
  EXPECT_GT(trace.peak_bytes, trace.weights_bytes);
  for (const std::string stage : {"tower", "prefill", "first_token", "generate", "plan"})
    EXPECT_TRUE(std::any_of(trace.times.begin(), trace.times.end(), [&](const StageTime& time) {
      return time.stage == stage;
    })) << stage;
}

TEST_F(AskTest, EachTokenOfAnAnswerHasWhatItAttendedTo) {
  AskOptions options;
  options.budget_tokens = 10;
  options.max_tokens = 4;
  options.ignore_end = true;
  const Answer plain = *ask(options);
  options.answer_attention = true;
  options.answers = 2;
  const Answer answer = *ask(options);
  EXPECT_EQ(answer.text, plain.text) << "reading attention out changes nothing";
  ASSERT_EQ(answer.others.size(), 1u);
  EXPECT_EQ(answer.others[0].tokens[0].attention, answer.tokens[0].attention)
      << "both are drawn from the prompt's last token";
  for (const AnswerToken& token : answer.tokens) {
    ASSERT_EQ(token.attention.size(), 1u) << "one picture";
    ASSERT_EQ(token.attention[0].size(), answer.trace.looks[0].plan.cells.size());
    double sum = 0;
    for (const float mass : token.attention[0]) sum += mass;
    EXPECT_GT(sum, 0);
    EXPECT_LT(sum, 1);
  }
  EXPECT_NE(answer.tokens[0].attention, answer.tokens[1].attention);
  EXPECT_TRUE(plain.tokens[0].attention.empty());
}

TEST_F(AskTest, APromptLongerThanTheContextSaysBothLengths) {
  std::string question;
  for (int i = 0; i < 1500; ++i) question += "why ";
  AskOptions options;
  const auto answer = ask(options, question);
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("context is 2,048"), std::string::npos)
      << answer.error().message;
  EXPECT_NE(answer.error().message.find("tokens ("), std::string::npos) << answer.error().message;
}

TEST_F(AskTest, AnAnswerEndsWhereTheContextDoes) {
  AskOptions options;
  options.max_tokens = 1 << 30;
  options.ignore_end = true;
  const Answer answer = *ask(options);
  EXPECT_EQ(answer.finish, "length");
  EXPECT_EQ(answer.trace.usage.text_tokens + answer.trace.usage.image_tokens +
                static_cast<int64_t>(answer.tokens.size()),
            2048);
}

TEST_F(AskTest, BadOptionsAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_refused({.plan = "spiral"}, "spiral");
  expect_refused({.budget_tokens = 0}, "budget");
  expect_refused({.fixations = {{{500, 10}}}}, "500");
  expect_refused({.look = "sideways"}, "sideways");
  expect_refused({.looks = 0}, "looks 0");
  expect_refused({.sure = 1.5}, "1.5");
  expect_refused({.sure = nan}, "sure");
  expect_refused({.balance = "justice"}, "justice");
  expect_refused({.tower_attention = "none"}, "there is no attention \"none\"");
  expect_refused({.tower_attention = "hierarchical:2"}, "above 0 and up to 1");
  expect_refused({.tower_attention = "dense,dense,dense,dense,dense,dense,dense,dense"},
                 "more kinds than the tower has layers");
  expect_refused({.text_attention = "local3"}, "\"local3\" is for the tower alone");
  AskOptions torn;
  torn.coupling = {Map(Grid{2, 3})};
  torn.coupling[0].score.pop_back();
  expect_refused(torn, "coupling");
  expect_refused({.max_tokens = 0}, "max_tokens 0");
  expect_refused({.temperature = -1}, "temperature");
  expect_refused({.temperature = nan}, "temperature");
  expect_refused({.top_k = -3}, "-3");
  expect_refused({.top_p = 1.5}, "1.5");
  expect_refused({.min_p = -0.5}, "-0.5");
  expect_refused({.repetition_penalty = 0}, "repetition");
  expect_refused({.frequency_penalty = 2.5}, "frequency_penalty is 2.5");
  expect_refused({.presence_penalty = nan}, "presence_penalty is nan");
  expect_refused({.logit_bias = {{720, 1}}}, "token 720, but the model has tokens 0 to 719");
  expect_refused({.logit_bias = {{7, 101}}}, "logit_bias of token 7 is 101");
  expect_refused({.max_tokens = 8, .least_tokens = 9}, "least_tokens 9 is more than max_tokens 8");
  expect_refused({.least_tokens = -1}, "least_tokens is -1");
  expect_refused({.stop = {"a", ""}}, "stop");
  expect_refused({.allow_special = true}, "<|image_pad|>", "what is <|image_pad|> here?");
  const auto plan = [](std::vector<Cell> cells) {
    AskOptions options;
    options.plans.resize(1);
    options.plans[0].cells = std::move(cells);
    return options;
  };
  expect_refused(plan({{0, 0, 0}, {0, 1, 1}, {0, 0, 0}}), "[0,0,0] twice");
  expect_refused(plan({{0, 3, 0}}), "[0,3,0]");
  expect_refused(plan({{-1, 0, 0}}), "[-1,0,0]");
  expect_refused(plan({{99, 0, 0}}), "[99,0,0]");
}

TEST_F(AskTest, AGivenPlanKeepsToTheBudgetAndTheCanvas) {
  AskOptions options;
  options.max_tokens = 1;
  options.plans.resize(1);
  options.plans[0].cells = {{0, 0, 0}, {0, 1, 1}, {0, 2, 2}};
  options.budget_tokens = 2;
  expect_refused(options, "the plan has 3 cells, but the budget is 2");
  options.budget_tokens = 3;
  EXPECT_TRUE(ask(options));
  options.plans[0].canvas = {224, 128};
  expect_refused(options, "a canvas of 224x128 px, but this image has one of 224x96 px");
  options.plans[0].canvas = {224, 96};
  EXPECT_TRUE(ask(options));
  options.plans.resize(2);
  expect_refused(options, "2 plans were given for 1 images");
  Session two = engine_.session();
  for (const char* name : {"wide.png", "tall.png"}) ASSERT_TRUE(two.add(ask_path(name)));
  options.plans.resize(1);
  const auto one = two.ask("Which?", options);
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().message, "1 plans were given for 2 images; give one for each");
  options.plans.resize(2);  // made here
  options.budget_tokens = -1;
  EXPECT_TRUE(two.ask("Which?", options));
}

// Nothing is encoded, so nobody is asked whether to go on.
TEST_F(AskTest, WhatCannotFitIsRefusedBeforeTheTowerRuns) {
  int calls = 0;
  AskOptions counted;
  counted.keep_going = [&] { return ++calls > 0; };
  std::string question;
  for (int i = 0; i < 1500; ++i) question += "why ";
  const auto long_text = ask(counted, question);
  ASSERT_FALSE(long_text);
  EXPECT_NE(long_text.error().message.find("context is 2,048"), std::string::npos);
  EXPECT_EQ(calls, 0);

  Session session = engine_.session();
  ASSERT_TRUE(session.add(Image({1024, 1024})));
  ASSERT_TRUE(session.add(Image({1024, 1024})));
  for (const std::string plan : {"uniform", "glance+look", "quadtree"}) {
    AskOptions options = counted;
    options.plan = plan;
    options.budget_tokens = plan == "uniform" ? -1 : 1024;
    options.look = "mixed";
    const auto answer = session.ask("What changed?", options);
    ASSERT_FALSE(answer) << plan;
    EXPECT_EQ(answer.error().kind, Error::Kind::kBadInput);
    for (const char* must_say : {"of text, 2,048 of images", "context is 2,048"})
      EXPECT_NE(answer.error().message.find(must_say), std::string::npos)
          << plan << ": " << answer.error().message;
    EXPECT_EQ(calls, 0) << plan;
  }
  EXPECT_TRUE(session.ask("And now?", {.budget_tokens = 8, .max_tokens = 1}));
}

// The checkpoint with a chat template that knows tools, one that tools/golden/chat.py compares.
class AskWithTools : public testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    folder_ = fs::temp_directory_path() / ("fovea-tools-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::copy(ask_path(), folder_);
    std::ifstream file(source_dir() + "/tests/fixtures/chat/models.json");
    const auto golden = nlohmann::json::parse(file);
    for (const auto& model : golden["models"])
      if (model["name"] == "qwen3_vl")
        std::ofstream(folder_ / "chat_template.jinja") << model["template"].get<std::string>();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(AskWithTools, ToolsCallsAndTheirResultsReachTheTemplate) {
  const Engine engine = load_engine({}, folder_.string());
  Session session = engine.session();
  ASSERT_TRUE(session.add(ask_path("wide.png")));
  ASSERT_TRUE(session.add(ask_path("tall.png")));
  std::vector<Message> messages = {{"user", {{0, ""}, {-1, "What is there?"}}}};
  AskOptions options{.budget_tokens = 6, .look = "off", .max_tokens = 3};
  const std::string question =
      "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is there?<|im_end|>\n";
  const std::string start = "<|im_start|>assistant\n";
  EXPECT_EQ(session.ask(messages, options)->trace.prompt, question + start);

  options.tools = R"([{"type":"function","function":{"name":"zoom","description":"a place"}}])";
  const std::string tools =
      "<|im_start|>system\n# Tools\n\n{\"type\": \"function\", \"function\": {\"name\": \"zoom\", "
      "\"description\": \"a place\"}}<|im_end|>\n";
  const auto first = session.ask(messages, options);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->trace.prompt, tools + question + start);

  // The conversation goes on with what the tool gave, a picture too.
  messages.push_back({"assistant", {}, R"([{"function":{"name":"zoom","arguments":{"x":1}}}])"});
  messages.push_back({"tool", {{-1, "here: "}, {1, ""}}});
  const auto second = session.ask(messages, options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->trace.prompt,
            tools + question + start + "<tool_call>\n{\"name\": \"zoom\", \"arguments\": " +
                "{\"x\": 1}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nhere: " +
                "<|vision_start|><|image_pad|><|vision_end|>\n</tool_response><|im_end|>\n" +
                start);
  EXPECT_EQ(second->trace.looks.size(), 2u);
  EXPECT_GT(second->trace.usage.kept_tokens, first->trace.usage.image_tokens);

  // JSON is counted before anything is computed.
  options.tools = "[{\"a\":[0" + [] {
    std::string numbers;
    for (int i = 0; i < 1500; ++i) numbers += ",1e9";
    return numbers;
  }() + "]}]";
  const auto long_one = session.ask(messages, options);
  ASSERT_FALSE(long_one);
  EXPECT_NE(long_one.error().message.find("context is 2,048"), std::string::npos)
      << long_one.error().message;
}

TEST_F(AskTest, BadTurnsAreRefused) {
  Session session = engine_.session();
  ASSERT_TRUE(session.add(ask_path("tall.png")));
  const auto refused = [&](const std::vector<Message>& messages, const std::string& must_say) {
    const auto answer = session.ask(messages);
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find(must_say), std::string::npos) << answer.error().message;
  };
  refused({}, "end with a message of the user");
  refused({{"assistant", {{-1, "Hi"}}}}, "end with a message of the user");
  refused({{"robot", {{-1, "Hi"}}}, {"user", {{-1, "Hi"}}}}, "robot");
  refused({{"user", {{1, ""}}}}, "image 1");
  refused({{"user", {{-1, "Hi"}}, "[{}]"}}, "a message of the role \"user\" has tool_calls");
  refused({{"user", {{-1, "Hi"}}}, {"assistant", {}, "[{"}, {"tool", {{-1, "1"}}}},
          "tool_calls: it is not JSON, at byte 3");
  refused({{"user", {{-1, "Hi"}}}, {"tool", {{-1, "1"}}}}, "the model has no chat template");
  expect_refused({.tools = "{}"}, "tools: it is not a list of objects");
  expect_refused({.tools = "[]"}, "the model has no chat template");
  EXPECT_FALSE(session.add(ask_path("missing.png")));
  EXPECT_TRUE(session.ask("Still there?", {.max_tokens = 1}));
}

TEST(EngineLoad, FormatsAnswerMuchTheSame) {
  AskOptions options;
  options.max_tokens = 1;
  options.likely_tokens = 720;
  const auto chances = [&](const std::string& weights) {
    const Engine engine = load_engine({.weights = weights});
    EXPECT_EQ(engine.info().weights, weights);
    const Answer answer = *engine.ask({ask_path("wide.png")}, "What is this?", options);
    std::vector<double> by_id(720);
    for (const LikelyToken& token : answer.tokens[0].likely)
      by_id[static_cast<size_t>(token.id)] = std::exp(token.logprob);
    return by_id;
  };
  const auto f32 = chances("f32");
  for (const std::string weights : {"bf16", "int8"}) {
    double apart = 0;
    const auto other = chances(weights);
    for (size_t i = 0; i < f32.size(); ++i) apart += std::abs(f32[i] - other[i]) / 2;
    // Weights of this small model are rounded by up to 1/256, or quantised to 1/127 of the largest
    // of a block; the total variation between the two next-token distributions stays small.
    EXPECT_LT(apart, weights == "bf16" ? 0.03 : 0.15) << weights;
  }
}

TEST(EngineLoad, AFileThatChangesUnderAModelThatUsesItIsAnError) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("fovea_ask_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::copy(ask_path(), folder);
  fs::permissions(folder / "model.safetensors", fs::perms::owner_all);
  const auto mapped = Engine::load(folder.string());
  const auto copied = Engine::load(folder.string(), {.weights = "int8"});
  ASSERT_TRUE(mapped && copied);
  fs::resize_file(folder / "model.safetensors", 20'000);
  const auto answer = mapped->ask({ask_path("wide.png")}, "What?", {.max_tokens = 2});
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("20,000 now"), std::string::npos) << answer.error().message;
  EXPECT_TRUE(copied->ask({ask_path("wide.png")}, "What?", {.max_tokens = 2}));
  fs::remove_all(folder);
}

TEST(EngineLoad, AVocabularyOutsideOfTheFolderIsRefused) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("fovea_link_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::copy(ask_path(), folder);
  fs::remove(folder / "tokenizer.json");
  fs::create_symlink(ask_path("tokenizer.json"), folder / "tokenizer.json");
  const auto engine = Engine::load(folder.string());
  ASSERT_TRUE(engine) << "the vocabulary is read while pictures are looked at";
  const auto answer = engine->ask({}, "What?", {.max_tokens = 1});
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("tokenizer.json"), std::string::npos)
      << answer.error().message;
  fs::remove_all(folder);
}

TEST(EngineLoad, BadFoldersAndFormatsAreRefused) {
  const auto refused = [](const std::string& folder, const LoadOptions& options,
                          const std::string& must_say) {
    const auto engine = Engine::load(folder, options);
    ASSERT_FALSE(engine) << folder;
    EXPECT_NE(engine.error().message.find(must_say), std::string::npos) << engine.error().message;
  };
  refused("no-such-folder", {}, "no-such-folder");
  refused(ask_path("wide.png"), {}, "wide.png");
  refused(source_dir() + "/tests", {}, "config.json");
  refused(ask_path(), {.weights = "int4"}, "int4");
  refused(source_dir() + "/tests/fixtures/checkpoint/tied_f32", {}, "tokenizer.json");
}

}  // namespace
}  // namespace fovea
