// SPDX-License-Identifier: Apache-2.0
// What sessions keep changes how long an answer takes, never the answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/ask_fixture.h"

namespace fovea {
namespace {

using test::ask_path;
using test::expect_same_answer;
using test::ids_of;
using test::load_engine;

// A cached beginning was computed in other pieces: float32 sums in another order.
constexpr double kRounding = 2e-5;

AskOptions short_answer() {
  AskOptions options;
  options.budget_tokens = 12;
  options.max_tokens = 12;
  options.ignore_end = true;
  return options;
}

Answer ask_fresh(const Engine& engine, const std::string& question, const AskOptions& options) {
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
  options.budget_tokens = 6;
  options.plan = "glance+look";
  try_it("a smaller budget");
}

TEST_F(SessionTest, AConversationKeepsItsBeginning) {
  const AskOptions options = short_answer();
  std::vector<Turn> turns = {{"user", {{0, ""}, {-1, "What is this?"}}}};
  const auto first = session_.ask(turns, options);
  ASSERT_TRUE(first) << first.error().message;
  turns.push_back({"assistant", {{-1, "A field."}}});
  turns.push_back({"user", {{-1, "Are you sure?"}}});
  const auto second = session_.ask(turns, options);
  ASSERT_TRUE(second) << second.error().message;
  const Usage& usage = first->trace.usage;
  EXPECT_GE(second->trace.usage.kept_tokens, usage.image_tokens + usage.text_tokens - 1);

  Session fresh = engine_.session();
  ASSERT_TRUE(fresh.add(ask_path("wide.png")));
  const auto expected = fresh.ask(turns, options);
  ASSERT_TRUE(expected);
  expect_same_answer(*second, *expected, kRounding);
}

TEST_F(SessionTest, TheSameImageMayBeShownTwiceAndNotAtAll) {
  const AskOptions options = short_answer();
  const std::vector<Turn> twice = {{"user", {{0, ""}, {-1, "and"}, {0, ""}, {-1, "Same?"}}}};
  const auto answer = session_.ask(twice, options);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->trace.looks.size(), 1u);
  EXPECT_EQ(answer->trace.usage.image_tokens, 2 * answer->trace.looks[0].plan.tokens());
  const std::vector<Turn> none = {{"user", {{-1, "Hello"}}}};
  const auto text = session_.ask(none, options);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->trace.usage.image_tokens, 0);
}

TEST_F(SessionTest, AStoppedAnswerLeavesTheSessionWhole) {
  const AskOptions options = short_answer();
  const Answer expected = ask_fresh(engine_, "What is this?", options);
  // The callback is asked often before the first text: stop at every such place in turn.
  bool finished = false;
  for (int calls = 1; !finished; ++calls) {
    ASSERT_LT(calls, 1000);
    int left = calls;
    const auto answer =
        session_.ask("What is this?", options, [&](std::string_view) { return --left > 0; });
    ASSERT_TRUE(answer) << answer.error().message;
    finished = answer->finish != "cancelled";
    EXPECT_TRUE(expected.text.starts_with(answer->text) || finished);
    if (calls % 5 != 0) continue;
    session_ = engine_.session();  // other places come from the beginning
    ASSERT_TRUE(session_.add(ask_path("wide.png")));
  }
  expect_same_answer(ask("What is this?", options), expected, kRounding);
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
