// SPDX-License-Identifier: Apache-2.0
// What sessions keep changes how long an answer takes, never the answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/test_ask.h"

namespace fovea {
namespace {

using test::ask_path;
using test::expect_same_answer;
using test::gaze_path;
using test::ids_of;
using test::load_engine;

// A cached beginning was computed in other pieces: float32 sums in another order.
constexpr double kRounding = 2e-5;

// The look is the same whatever is asked.
AskOptions short_answer() {
  AskOptions options;
  options.look = "mixed";
  options.balance = "salience";
  options.budget_tokens = 12;
  options.max_tokens = 12;
  options.ignore_end = true;
  return options;
}

Answer ask_fresh(const Engine& engine, const std::string& question, AskOptions options) {
  options.share = false;
  auto answer = engine.ask({ask_path("wide.png")}, question, options);
  EXPECT_TRUE(answer) << answer.error().message;
  return std::move(*answer);
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() { EXPECT_TRUE(session_.add(ask_path("wide.png"))); }
  Answer ask(const std::string& question, const AskOptions& options) {
    auto answer = session_.ask(question, options);
    EXPECT_TRUE(answer) << answer.error().message;
    return std::move(*answer);
  }

  Engine engine_ = load_engine();
  Session session_ = engine_.session();
};

TEST_F(SessionTest, AFollowUpQuestionEqualsAFreshRun) {
  const AskOptions options = short_answer();
  const Answer first = ask("What is this?", options);
  EXPECT_EQ(first.trace.usage.kept_tokens, 0);
  EXPECT_EQ(first.trace.looks[0].encoded_tokens, first.trace.usage.image_tokens);
  for (const std::string question : {"What is on the left?", "What is this?", "Who?"}) {
    const Answer again = ask(question, options);
    expect_same_answer(again, ask_fresh(engine_, question, options), kRounding);
    EXPECT_EQ(again.trace.looks[0].encoded_tokens, 0) << "nothing goes through the tower again";
    EXPECT_GE(again.trace.usage.kept_tokens, again.trace.usage.image_tokens) << question;
  }
}

TEST_F(SessionTest, AnotherFixationEncodesTheLookAlone) {
  AskOptions options = short_answer();
  options.balance = "mean";
  options.fixations = {{{20, 20}}};
  const Answer left = ask("What is this?", options);
  options.fixations = {{{200, 80}}};
  const Answer right = ask("What is this?", options);
  EXPECT_NE(left.trace.looks[0].plan.cells, right.trace.looks[0].plan.cells);
  EXPECT_EQ(right.trace.looks[0].encoded_tokens,
            right.trace.usage.image_tokens - right.trace.looks[0].glance_tokens);
  EXPECT_GE(right.trace.usage.kept_tokens, right.trace.looks[0].glance_tokens);
  expect_same_answer(right, ask_fresh(engine_, "What is this?", options), kRounding);
}

TEST_F(SessionTest, AnyChangeOfPlanEqualsAFreshRun) {
  AskOptions options = short_answer();
  const auto try_it = [&](const std::string& what) {
    SCOPED_TRACE(what);
    expect_same_answer(ask("Where?", options), ask_fresh(engine_, "Where?", options), kRounding);
  };
  try_it("glance+look");
  options.plan = "uniform";
  try_it("uniform, whose canvas has another limit");
  options.plan = "quadtree";
  try_it("quadtree");
  options.size_bias = true;
  try_it("size bias");
  options.tower_attention = "local3";
  try_it("another attention of the tower");
  options.tower_attention = "local3,dense";
  try_it("another schedule of it");
  options.tower_attention = "";
  try_it("dense again");
  for (const char* kind : {"prefix", "top-blocks:0.5", "window,dense", "strided", "dense"}) {
    options.text_attention = kind;
    try_it(std::string("the language model's: ") + kind);
  }
  options.text_attention = "prefix";
  options.budget_tokens = 6;
  options.plan = "glance+look";
  try_it("a smaller budget");
  options.balance = "mean";
  try_it("the model's own coupling");
  options.look = "crops";
  try_it("crops");
  options.look = "off";
  try_it("no look");
}

TEST_F(SessionTest, AConversationKeepsItsBeginning) {
  const AskOptions options = short_answer();
  std::vector<Message> messages = {{"user", {{0, ""}, {-1, "What is this?"}}}};
  const auto first = session_.ask(messages, options);
  ASSERT_TRUE(first) << first.error().message;
  messages.push_back({"assistant", {{-1, "A field."}}});
  messages.push_back({"user", {{-1, "Are you sure?"}}});
  const auto second = session_.ask(messages, options);
  ASSERT_TRUE(second) << second.error().message;
  const Usage& usage = first->trace.usage;
  EXPECT_GE(second->trace.usage.kept_tokens, usage.image_tokens + usage.text_tokens - 1);

  Session fresh = engine_.session();
  ASSERT_TRUE(fresh.add(ask_path("wide.png")));
  AskOptions alone = options;
  alone.share = false;
  const auto expected = fresh.ask(messages, alone);
  ASSERT_TRUE(expected);
  expect_same_answer(*second, *expected, kRounding);
}

TEST_F(SessionTest, TheSameImageMayBeShownTwiceAndNotAtAll) {
  const AskOptions options = short_answer();
  const std::vector<Message> twice = {{"user", {{0, ""}, {-1, "and"}, {0, ""}, {-1, "Same?"}}}};
  const auto answer = session_.ask(twice, options);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->trace.looks.size(), 1u);
  EXPECT_EQ(answer->trace.usage.image_tokens, 2 * answer->trace.looks[0].plan.tokens());
  const std::vector<Message> none = {{"user", {{-1, "Hello"}}}};
  const auto text = session_.ask(none, options);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->trace.usage.image_tokens, 0);
}

// Stops an answer at every place where it can be, one after the other, and asks again.
void expect_whole_after_stops(const Engine& engine, Session session, const std::string& picture,
                              const AskOptions& options) {
  const auto fresh = engine.ask({picture}, "What is this?", options);
  ASSERT_TRUE(fresh) << fresh.error().message;
  // The callback is asked often before the first text: stop at every such place, one after the
  // other.
  bool finished = false;
  for (int calls = 1; !finished; ++calls) {
    ASSERT_LT(calls, 1000);
    int left = calls;
    AskOptions stopping = options;
    stopping.keep_going = [&] { return --left > 0; };
    const auto answer = session.ask("What is this?", stopping);
    ASSERT_TRUE(answer) << answer.error().message;
    finished = answer->finish != "cancelled";
    EXPECT_TRUE(fresh->text.starts_with(answer->text) || finished);
    if (calls % 5 != 0) continue;
    session = engine.session();  // other places come from the beginning
    ASSERT_TRUE(session.add(picture));
  }
  const auto again = session.ask("What is this?", options);
  ASSERT_TRUE(again) << again.error().message;
  expect_same_answer(*again, *fresh, kRounding);
}

TEST_F(SessionTest, AStoppedAnswerLeavesTheSessionWhole) {
  expect_whole_after_stops(engine_, std::move(session_), ask_path("wide.png"), short_answer());
}

TEST(GazeSession, AStoppedAnswerLeavesTheSessionWhole) {
  const Engine engine = load_engine({}, gaze_path());
  AskOptions options = short_answer();
  options.balance = "";
  options.looks = 3;
  options.sure = 1;
  for (const std::string look : {"mixed", "crops"}) {
    options.look = look;
    Session session = engine.session();
    ASSERT_TRUE(session.add(gaze_path("scene.png")));
    expect_whole_after_stops(engine, std::move(session), gaze_path("scene.png"), options);
  }
}

// Whatever was asked before, the same cells are looked at, chosen by the same maps to the last bit.
TEST(GazeSession, AFollowUpQuestionEqualsAFreshRun) {
  for (const std::string& folder : {gaze_path(), ask_path()}) {
    const Engine engine = load_engine({}, folder);
    for (const int looks : {1, 3}) {
      for (const std::string look : {"mixed", "crops"}) {
        SCOPED_TRACE(folder + " " + look + " " + std::to_string(looks));
        AskOptions options = short_answer();
        options.balance = "";
        options.budget_tokens = 16;
        options.look = look;
        options.looks = looks;
        options.sure = 1;
        Session session = engine.session();
        ASSERT_TRUE(session.add(gaze_path("scene.png")));
        bool first = true;
        for (const std::string question :
             {"What is this?", "Who is on the left?", "Why?", "Why?"}) {
          const auto again = session.ask(question, options);
          const auto fresh = engine.ask({gaze_path("scene.png")}, question, options);
          ASSERT_TRUE(again && fresh);
          expect_same_answer(*again, *fresh, kRounding);
          const Look& mine = again->trace.looks[0];
          const Look& theirs = fresh->trace.looks[0];
          EXPECT_EQ(mine.plan.cells, theirs.plan.cells);
          for (size_t i = 0; i < mine.saccades.size(); ++i)
            EXPECT_EQ(mine.saccades[i].coupling.score, theirs.saccades[i].coupling.score) << i;
          if (!first) {
            EXPECT_LE(mine.encoded_tokens, mine.plan.tokens() - mine.glance_tokens);
            EXPECT_GE(again->trace.usage.kept_tokens, mine.glance_tokens) << "the glance is read";
          }
          first = false;
        }
      }
    }
  }
}

TEST(GazeSession, AConversationAboutTwoPicturesEqualsAFreshRun) {
  const Engine engine = load_engine({}, gaze_path());
  AskOptions options = short_answer();
  options.balance = "";
  options.looks = 2;
  options.sure = 1;
  const auto make = [&] {
    Session session = engine.session();
    EXPECT_TRUE(session.add(gaze_path("scene.png")));
    EXPECT_TRUE(session.add(ask_path("tall.png")));
    return session;
  };
  Session session = make();
  std::vector<Message> messages = {{"user", {{0, ""}, {-1, "and"}, {1, ""}, {-1, "Which?"}}}};
  ASSERT_TRUE(session.ask(messages, options));
  messages.push_back({"assistant", {{-1, "The first."}}});
  messages.push_back({"user", {{-1, "Are you sure?"}}});
  const auto second = session.ask(messages, options);
  const auto fresh = make().ask(messages, options);
  ASSERT_TRUE(second && fresh);
  expect_same_answer(*second, *fresh, kRounding);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(second->trace.looks[i].plan.cells, fresh->trace.looks[i].plan.cells) << i;
}

TEST(GazeSession, IsTheSameForAnyNumberOfThreads) {
  AskOptions options = short_answer();
  options.balance = "";
  options.looks = 2;
  options.sure = 1;
  for (const std::string& folder : {gaze_path(), ask_path()}) {
    const Engine engine = load_engine({}, folder);
    const auto expected = engine.ask({gaze_path("scene.png")}, "Where?", options);
    for (const int threads : {1, 2, 3}) {
      const Engine other = load_engine({.threads = threads}, folder);
      const auto answer = other.ask({gaze_path("scene.png")}, "Where?", options);
      ASSERT_TRUE(answer && expected);
      expect_same_answer(*answer, *expected, 0.0);
      EXPECT_EQ(answer->trace.confidence, expected->trace.confidence);
      const auto& saccades = answer->trace.looks[0].saccades;
      for (size_t i = 0; i < saccades.size(); ++i)
        EXPECT_EQ(saccades[i].coupling.score, expected->trace.looks[0].saccades[i].coupling.score);
    }
  }
}

TEST_F(SessionTest, IsTheSameForAnyNumberOfThreads) {
  const AskOptions options = short_answer();
  const Answer expected = ask("What is this?", options);
  for (const int threads : {1, 2, 3}) {
    const Engine other = load_engine({.threads = threads});
    expect_same_answer(ask_fresh(other, "What is this?", options), expected, 0.0);
  }
}

}  // namespace
}  // namespace fovea
