// SPDX-License-Identifier: Apache-2.0
// Conversations whose looks are crops only grow: each look stays in the message that asked for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/test_ask.h"

namespace fovea {
namespace {

using test::ask_path;
using test::expect_same_answer;
using test::gaze_path;
using test::load_engine;

// The prompt is read in other pieces: sums in another order.
constexpr double kRounding = 5e-5;

Image picture() {
  Image image(Size{512, 384});
  for (int y = 0; y < 384; ++y)
    for (int x = 0; x < 512; ++x)
      for (int c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] =
            static_cast<uint8_t>((x / 16 * 37 + y / 16 * 101 + c * 59) % 151 + (x * 3 + y) % 100);
  return image;
}

AskOptions crops() {
  AskOptions options;
  options.look = "crops";
  options.budget_tokens = 60;
  options.max_tokens = 6;
  options.ignore_end = true;
  return options;
}

std::string question_of(int number) { return "What is number " + std::to_string(number) + "?"; }

int64_t prompt_tokens(const Answer& answer) {
  return answer.trace.usage.text_tokens + answer.trace.usage.image_tokens;
}

// A talk about one picture, which is in its first message.
class Talk {
 public:
  explicit Talk(const Engine& engine) : session_(engine.session()) {
    EXPECT_TRUE(session_.add(picture()));
  }

  Answer ask(const std::string& question, const AskOptions& options) {
    Message message;
    if (turns_.empty()) message.parts.push_back({0, ""});
    message.parts.push_back({-1, question});
    turns_.push_back(message);
    auto answer = session_.ask(turns_, options);
    if (!answer) throw std::runtime_error(answer.error().message);
    turns_.push_back({"assistant", {{-1, answer->text}}});
    return std::move(*answer);
  }
  std::vector<Message>& messages() { return turns_; }

 private:
  Session session_;
  std::vector<Message> turns_;
};

TEST(Conversation, NothingIsReadAgainWhereLooksAreCrops) {
  const Engine engine = load_engine();
  Talk talk(engine);
  Answer before = talk.ask(question_of(0), crops());
  for (int i = 1; i < 8; ++i) {
    const Answer answer = talk.ask(question_of(i), crops());
    const std::vector<int>& ids = answer.trace.prompt_ids;
    const std::vector<int>& old = before.trace.prompt_ids;
    ASSERT_GT(ids.size(), old.size());
    EXPECT_TRUE(std::equal(old.begin(), old.end(), ids.begin())) << i;
    // Not the prompt before, and at most the end of its answer.
    EXPECT_GE(answer.trace.usage.kept_tokens, prompt_tokens(before)) << i;
    // Each look has the budget less the glance.
    const Look& look = answer.trace.looks[0];
    EXPECT_LE(look.plan.tokens(), 60);
    EXPECT_GT(look.plan.tokens(), look.glance_tokens);
    EXPECT_EQ(answer.trace.usage.image_tokens,
              before.trace.usage.image_tokens + look.plan.tokens() - look.glance_tokens);
    before = answer;
  }
}

TEST(Conversation, IsThatOfTheSameCropsGivenAsImages) {
  const Engine engine = load_engine();
  const Image whole = picture();
  Talk talk(engine);
  Session given = engine.session();
  ASSERT_TRUE(given.add(whole));
  AskOptions options = crops();
  options.plans.resize(1);
  std::vector<Message> messages;
  int images = 1;
  for (int i = 0; i < 3; ++i) {
    const Answer answer = talk.ask(question_of(i), crops());
    const Look& look = answer.trace.looks[0];
    options.plans[0] = Plan{
        "glance+look", 60, {look.plan.cells.begin(), look.plan.cells.begin() + look.glance_tokens}};
    Message& message = messages.emplace_back();
    if (i == 0) message.parts.push_back({0, ""});
    ASSERT_FALSE(look.saccades.empty());
    for (const Area& area : look.saccades[0].crops) {
      Image crop(area.size);
      for (int y = 0; y < crop.size.height_px; ++y)
        std::copy_n(whole.row(area.y_px + y) + 3 * area.x_px, 3 * crop.size.width_px, crop.row(y));
      const Grid grid = grid_at(crop.size, 0);
      Plan all;
      for (int row = 0; row < grid.rows; ++row)
        for (int col = 0; col < grid.cols; ++col) all.cells.push_back({0, row, col});
      options.plans.emplace_back(all);
      message.parts.push_back({images++, ""});
      ASSERT_TRUE(given.add(std::move(crop)));
    }
    message.parts.push_back({-1, question_of(i)});
    const auto same = given.ask(messages, options);
    ASSERT_TRUE(same) << same.error().message;
    EXPECT_EQ(same->trace.prompt, answer.trace.prompt) << i;
    expect_same_answer(answer, *same, kRounding);
    messages.push_back({"assistant", {{-1, answer.text}}});
  }
}

// Then a prompt is that of a first question, with the conversation behind the picture and its look.
TEST(Conversation, EarlierLooksMayBeDropped) {
  const Engine engine = load_engine();
  Talk talk(engine);
  AskOptions options = crops();
  options.keep_looks = false;
  const Answer first = talk.ask(question_of(0), options);
  const Answer second = talk.ask(question_of(1), options);
  Talk keeps(engine);
  keeps.ask(question_of(0), crops());
  const Answer kept = keeps.ask(question_of(1), crops());
  const auto crops_in = [](const Answer& answer) {
    return answer.trace.looks[0].saccades[0].crops.size();
  };
  const auto pictures_in = [](const Answer& answer) {
    size_t count = 0;
    const std::string& text = answer.trace.prompt;
    for (size_t at = 0; (at = text.find("<|image_pad|>", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(pictures_in(first), 1 + crops_in(first));
  EXPECT_EQ(pictures_in(second), 1 + crops_in(second));
  EXPECT_EQ(pictures_in(kept), 1 + crops_in(first) + crops_in(kept));
  EXPECT_LT(second.trace.usage.image_tokens, kept.trace.usage.image_tokens);
}

// Another history has no looks of this one; what it was is known again when it comes back.
TEST(Conversation, LooksBelongToTheHistoryTheyWereTakenIn) {
  const Engine engine = load_engine();
  Talk talk(engine);
  talk.ask(question_of(0), crops());
  const Answer second = talk.ask(question_of(1), crops());
  std::vector<Message> other = talk.messages();
  other[0].parts[1].text = "Something else?";
  std::vector<Message> kept = talk.messages();
  kept.resize(2);
  other.resize(2);
  talk.messages() = other;
  const Answer elsewhere = talk.ask(question_of(1), crops());
  EXPECT_LT(elsewhere.trace.usage.image_tokens, second.trace.usage.image_tokens);
  talk.messages() = kept;
  const Answer again = talk.ask(question_of(1), crops());
  EXPECT_EQ(again.trace.prompt, second.trace.prompt);
  expect_same_answer(again, second, kRounding);
}

TEST(Conversation, WithASystemTextAndSeveralLooksToo) {
  const Engine engine = load_engine();
  AskOptions options = crops();
  options.system = "Be short.";
  options.looks = 3;
  options.sure = 1;
  options.attention = true;
  Talk talk(engine);
  Answer before = talk.ask(question_of(0), options);
  for (int i = 1; i < 4; ++i) {
    const Answer answer = talk.ask(question_of(i), options);
    EXPECT_GE(answer.trace.usage.kept_tokens, prompt_tokens(before)) << i;
    EXPECT_EQ(answer.trace.looks[0].attention.size(), answer.trace.looks[0].plan.cells.size());
    before = answer;
  }
}

// A picture that a conversation does not name is not in it, whatever was looked at before.
TEST(Conversation, OtherPicturesStayOutOfIt) {
  const Engine engine = load_engine();
  const auto ask = [&](bool other_first) {
    Session session = engine.session();
    EXPECT_TRUE(session.add(picture()));
    EXPECT_TRUE(session.add(picture()));
    if (other_first) {
      const std::vector<Message> other = {{"user", {{1, ""}, {-1, question_of(1)}}}};
      const auto answer = session.ask(other, crops());
      EXPECT_TRUE(answer && !answer->trace.looks[0].saccades[0].crops.empty());
    }
    const std::vector<Message> messages = {{"user", {{0, ""}, {-1, question_of(2)}}}};
    const auto answer = session.ask(messages, crops());
    EXPECT_TRUE(answer);
    return *answer;
  };
  const Answer alone = ask(false);
  const Answer after = ask(true);
  EXPECT_EQ(after.trace.prompt, alone.trace.prompt);
  expect_same_answer(after, alone, kRounding);
}

TEST(Conversation, APictureMayComeLaterAndTwice) {
  const Engine engine = load_engine();
  Session session = engine.session();
  ASSERT_TRUE(session.add(picture()));
  AskOptions options = crops();
  options.attention = true;
  std::vector<Message> messages = {{"user", {{-1, "Hello"}}}, {"assistant", {{-1, "Hello you"}}}};
  Answer before;
  for (int i = 0; i < 3; ++i) {
    messages.push_back({"user", {{-1, question_of(i)}}});
    if (i != 1) messages.back().parts.insert(messages.back().parts.begin(), {0, ""});
    const auto answer = session.ask(messages, options);
    ASSERT_TRUE(answer) << answer.error().message;
    if (i > 0) {
      EXPECT_GE(answer->trace.usage.kept_tokens, prompt_tokens(before)) << i;
    }
    EXPECT_EQ(answer->trace.looks[0].attention.size(), answer->trace.looks[0].plan.cells.size());
    before = *answer;
    messages.push_back({"assistant", {{-1, answer->text}}});
  }
}

// The look of a question stands in it also where a tool has the last word.
TEST(Conversation, WhatAToolGaveComesBehindTheQuestionAndItsLook) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "model_with_tools";
  fs::remove_all(folder);
  fs::copy(ask_path(), folder);
  fs::copy(source_dir() + "/tools/golden/templates/qwen3_vl.jinja", folder / "chat_template.jinja");
  const Engine engine = load_engine({}, folder.string());
  Session session = engine.session();
  ASSERT_TRUE(session.add(picture()));
  std::vector<Message> messages = {{"user", {{0, ""}, {-1, question_of(0)}}}};
  const auto first = session.ask(messages, crops());
  ASSERT_TRUE(first) << first.error().message;
  messages.push_back({"assistant", {{-1, "I look it up"}}});
  messages.push_back({"tool", {{-1, "It is nothing"}}});
  const auto second = session.ask(messages, crops());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_LT(second->trace.prompt.rfind("<|vision_end|>"),
            second->trace.prompt.find("I look it up"));
}

TEST(Conversation, GoesOnAfterAQuestionThatLooksOtherwise) {
  const Engine engine = load_engine();
  Talk talk(engine);
  const Answer first = talk.ask(question_of(0), crops());
  AskOptions off = crops();
  off.look = "off";
  const Answer second = talk.ask(question_of(1), off);
  EXPECT_GE(second.trace.usage.kept_tokens, prompt_tokens(first));
  const Answer third = talk.ask(question_of(2), crops());
  EXPECT_GE(third.trace.usage.kept_tokens, prompt_tokens(second));
}

// Models made for mixed cells keep the order they were trained with: looks behind the glance.
TEST(Conversation, MixedLooksStandBehindTheGlance) {
  const Engine engine = load_engine({}, gaze_path());
  AskOptions options = crops();
  options.look = "mixed";
  Talk talk(engine);
  const Answer first = talk.ask(question_of(0), options);
  const Answer second = talk.ask(question_of(1), options);
  EXPECT_EQ(second.trace.usage.image_tokens, second.trace.looks[0].plan.tokens());
  EXPECT_LT(second.trace.usage.kept_tokens, prompt_tokens(first));
}

}  // namespace
}  // namespace fovea
