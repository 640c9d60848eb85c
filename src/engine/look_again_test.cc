// SPDX-License-Identifier: Apache-2.0
// A look that an answer takes half-way.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "engine/look_again.h"
#include "engine/test_ask.h"
#include "language/positions.h"

namespace fovea {
namespace {

using test::expect_same_answer;
using test::gaze_path;
using test::load_engine;

constexpr int kBudget = 40;  // a glance of 4 x 3 level-2 cells, 28 tokens to look with
constexpr int kGlance = 12;
constexpr int kTokens = 5;

Image picture(uint32_t seed = 1, Size size = {512, 384}) {
  Image image(size);
  std::mt19937 random(seed);
  for (int y = 0; y < size.height_px; ++y)
    for (int x = 0; x < size.width_px; ++x)
      for (int c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] =
            static_cast<uint8_t>(random() % 60 + static_cast<uint32_t>(x / 32 * 7 + y / 32 * 11));
  return image;
}

AskOptions options_of(double relook) {
  AskOptions options;
  options.budget_tokens = kBudget;
  options.max_tokens = kTokens;
  options.ignore_end = true;
  options.relook = relook;
  return options;
}

Session session_of(const Engine& engine) {
  Session session = engine.session();
  EXPECT_TRUE(session.add(picture()));
  return session;
}

Answer ask(const Engine& engine, const AskOptions& options) {
  Session session = session_of(engine);
  auto answer = session.ask("What is this?", options);
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? std::move(*answer) : Answer{};
}

// AskOptions::look_again that asks for a look before one token.
std::function<bool()> before(int token) {
  return [token, count = 0]() mutable { return count++ == token; };
}

class LookAgainTest : public testing::Test {
 protected:
  Engine engine_ = load_engine({}, gaze_path());
};

TEST_F(LookAgainTest, TakesTheRestOfTheBudgetAndReadsNothingElseAgain) {
  const Answer answer = ask(engine_, options_of(1));  // never so sure
  ASSERT_EQ(answer.trace.looks.size(), 1u);
  const Look& look = answer.trace.looks[0];
  ASSERT_EQ(look.saccades.size(), 2u);
  EXPECT_EQ(look.saccades[0].end, kGlance + 14);
  EXPECT_EQ(look.plan.tokens(), kBudget);
  EXPECT_GT(look.saccades[1].confidence, 0) << "of the token that was drawn after it";
  EXPECT_EQ(answer.trace.usage.image_tokens, kBudget);
  EXPECT_EQ(answer.trace.usage.patches, 4 * kBudget);
  EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(kTokens));
  std::set<std::tuple<int, int, int>> distinct;
  for (const Cell& cell : look.plan.cells) distinct.insert({cell.level, cell.row, cell.col});
  EXPECT_EQ(distinct.size(), look.plan.cells.size()) << "no cell twice";
  const auto count = [&](const std::string& stage) {
    return std::count_if(answer.trace.times.begin(), answer.trace.times.end(),
                         [&](const StageTime& time) { return time.stage == stage; });
  };
  EXPECT_EQ(count("prefill"), 1) << "the prompt was read once with its look";
}

TEST_F(LookAgainTest, ASureAnswerLooksOnceAndSpendsHalf) {
  AskOptions options = options_of(0);
  int asked = 0;
  options.look_again = [&] {
    ++asked;
    return false;
  };
  const Answer answer = ask(engine_, options);
  EXPECT_EQ(asked, kTokens) << "before each token";
  EXPECT_EQ(answer.trace.looks[0].saccades.size(), 1u);
  EXPECT_EQ(answer.trace.usage.image_tokens, kGlance + 14);
  // As a first look of two after which the model is sure.
  AskOptions two = options_of(0);
  two.looks = 2;
  two.sure = 0;
  expect_same_answer(answer, ask(engine_, two), 0);
}

// Looks that were not needed before the answer are none for each token of it.
TEST_F(LookAgainTest, OneLookTakesWhatFurtherLooksLeft) {
  AskOptions options = options_of(1);
  options.looks = 3;
  options.sure = 0;
  const Answer answer = ask(engine_, options);
  const Look& look = answer.trace.looks[0];
  ASSERT_EQ(look.saccades.size(), 2u);
  EXPECT_EQ(look.plan.tokens(), kBudget);
  EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(kTokens));
}

// Up to the token before which it looks the answer is what it is without; what follows has seen
// more.
TEST_F(LookAgainTest, TheCallerMayAskForItBeforeAnyToken) {
  AskOptions never = options_of(0);
  never.look_again = [] { return false; };
  const Answer without = ask(engine_, never);
  for (int token = 0; token < kTokens; ++token) {
    AskOptions options = options_of(0);
    options.look_again = before(token);
    const Answer answer = ask(engine_, options);
    EXPECT_EQ(answer.trace.looks[0].saccades.size(), 2u);
    ASSERT_EQ(answer.tokens.size(), static_cast<size_t>(kTokens));
    for (int i = 0; i < token; ++i)
      EXPECT_EQ(answer.tokens[static_cast<size_t>(i)].logprob,
                without.tokens[static_cast<size_t>(i)].logprob);
    const auto at = static_cast<size_t>(token);
    EXPECT_NE(answer.tokens[at].logprob, without.tokens[at].logprob) << "before token " << token;
  }
}

// What is asked next reads what it must: as in a fresh session.
TEST_F(LookAgainTest, AQuestionThatFollowsIsAnsweredAsByAFreshSession) {
  for (const int token : {0, 2}) {
    AskOptions options = options_of(0);
    options.look_again = before(token);
    Session session = session_of(engine_);
    const std::vector<Message> first = {{"user", {{0, ""}, {-1, "What is this?"}}}};
    const auto one = session.ask(first, options);
    ASSERT_TRUE(one) << one.error().message;
    std::vector<Message> both = first;
    both.push_back({"assistant", {{-1, one->text}}});
    both.push_back({"user", {{-1, "And that?"}}});
    AskOptions plain = options_of(0);
    plain.share = false;
    const auto two = session.ask(both, plain);
    ASSERT_TRUE(two) << two.error().message;
    Session fresh = session_of(engine_);
    const auto expected = fresh.ask(both, plain);
    ASSERT_TRUE(expected);
    expect_same_answer(*two, *expected, 1e-5);
    // The same question once more.
    const auto again = session.ask(first, options_of(0));
    Session other = session_of(engine_);
    const auto expected_again = other.ask(first, options_of(0));
    ASSERT_TRUE(again && expected_again);
    expect_same_answer(*again, *expected_again, 1e-5);
  }
}

// Where keys are forgotten, too: beside other requests there may be no more to take.
TEST(LookAgain, TakesNoMoreThanWasReserved) {
  const Engine engine = load_engine({.threads = 2}, source_dir() + "/models/tiny");
  Session session = engine.session();
  ASSERT_TRUE(session.add(picture(1, {1024, 512})));
  AskOptions options = options_of(0);
  options.budget_tokens = 400;
  options.keep = 0.1;
  options.forget = "vl-cache";
  int64_t before = 0;
  int64_t after = 0;
  options.look_again = [&] {
    before = engine.memory().reserved;
    return true;
  };
  options.on_logits = [&](std::span<const float>) { after = engine.memory().reserved; };
  const auto answer = session.ask("What is this?", options);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->trace.looks[0].saccades.size(), 2u);
  EXPECT_LT(answer->trace.usage.visual_keys_kept, answer->trace.usage.visual_keys);
  EXPECT_GT(before, 0);
  EXPECT_EQ(after, before);
}

// Cells of a picture that stands behind some text: its own time, rows and columns from there.
TEST(AddedTokens, StandWhereTheirPictureStands) {
  std::vector<ImageView> views(1);
  ImageView& view = views[0];
  const std::vector<Cell> glance = {{2, 0, 0}, {2, 0, 1}};
  VisualTokens of_glance;
  of_glance.count = 2;
  VisualTokens of_look;
  of_look.count = 3;
  const std::vector<Cell> look = {{0, 1, 2}, {0, 3, 0}, {1, 0, 1}};
  view.parts.push_back({.cells = glance,
                        .kept = true,
                        .tokens = std::make_shared<const VisualTokens>(std::move(of_glance)),
                        .number = 1});
  view.parts.push_back({.cells = look,
                        .kept = true,
                        .tokens = std::make_shared<const VisualTokens>(std::move(of_look)),
                        .number = 2});
  view.shown = 2;
  TokenPrompt prompt;
  prompt.ids = {5, 6, 30, 30, 7};
  for (const int id : prompt.ids) prompt.keys.push_back({id, id == 30 ? 0 : -1, 1, 0, {}});
  for (const size_t at : {size_t{2}, size_t{3}}) prompt.keys[at].position = {2, 3, 4};
  prompt.images.push_back({.image = 0, .begin = 2, .glance_end = 4, .end = 4});
  const int images[] = {0};
  const Shown shown[] = {{1, {4, 8}}};
  const AddedTokens added = added_tokens(prompt, views, images, shown);
  ASSERT_EQ(added.tokens(), 3);
  EXPECT_EQ(added.ids, std::vector<int>(3, 30));
  EXPECT_EQ(added.positions[0], (TokenPosition{2, 3, 4}));
  EXPECT_EQ(added.positions[1], (TokenPosition{2, 5, 2}));
  EXPECT_EQ(added.positions[2], (TokenPosition{2, 2.5, 4.5}));
  ASSERT_EQ(added.visual.size(), 1u);
  EXPECT_EQ(added.visual[0].tokens, view.parts[1].tokens.get());
  EXPECT_EQ(added.keys[1].encoding, 2);
  EXPECT_EQ(added.keys[1].index, 1);
}

TEST(LookAgain, WrongSettingsAreRefusedInOneLine) {
  const Engine stock = load_engine();
  Session session = session_of(stock);
  const auto refused = [&](const AskOptions& options, const std::string& words) {
    const auto answer = session.ask("What?", options);
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find(words), std::string::npos) << answer.error().message;
    EXPECT_EQ(answer.error().message.find('\n'), std::string::npos);
  };
  refused(options_of(-0.5), "relook -0.5: give a probability");
  refused(options_of(0.5), "a crop cannot be added to an answer");
}

}  // namespace
}  // namespace fovea
