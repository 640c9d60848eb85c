// SPDX-License-Identifier: Apache-2.0
// Sessions of one model share memory: what one has computed of a picture serves the others, what
// they may need is promised before they start, and no answer changes for it.
#include <gtest/gtest.h>

#include <thread>

#include "engine/test_ask.h"
#include "media/decode.h"

namespace fovea {
namespace {

using test::ask_path;
using test::expect_same_answer;
using test::gaze_path;
using test::load_engine;

AskOptions default_plan() {
  AskOptions options;
  options.budget_tokens = 12;
  options.max_tokens = 8;
  options.ignore_end = true;
  return options;
}

Image picture(uint8_t change = 0) {
  auto image = read_image(ask_path("wide.png"), {});
  EXPECT_TRUE(image);
  image->rgb.front() = static_cast<uint8_t>(image->rgb.front() + change);
  return std::move(*image);
}

Result<Answer> ask(const Engine& engine, const Image& image, const std::string& question,
                   const AskOptions& options) {
  Session session = engine.session();
  EXPECT_TRUE(session.add(image));
  return session.ask(question, options);
}

Answer ask_alone(const Engine& engine, const Image& image, const std::string& question,
                 AskOptions options) {
  options.share = false;
  auto answer = ask(engine, image, question, options);
  EXPECT_TRUE(answer) << answer.error().message;
  return std::move(*answer);
}

std::string question_of(int number) { return "What is number " + std::to_string(number) + "?"; }

// Of a stock model, which looks by crops, and of one that has a gaze head.
class ShareTest : public testing::TestWithParam<bool> {
 protected:
  static Engine load(int64_t memory_bytes = 0) {
    LoadOptions options;
    options.memory_bytes = memory_bytes;
    options.threads = 2;
    return load_engine(options, GetParam() ? gaze_path() : ask_path());
  }
};

TEST_P(ShareTest, SixteenSessionsAboutOnePictureEncodeAndReadItsGlanceOnce) {
  const Engine engine = load();
  const Image image = picture();
  std::vector<Session> sessions;
  for (int i = 0; i < 16; ++i) {
    sessions.push_back(engine.session());
    ASSERT_TRUE(sessions.back().add(image));
    const auto answer = sessions.back().ask(question_of(i), default_plan());
    ASSERT_TRUE(answer) << answer.error().message;
    // To the last bit, since it is computed in the same pieces.
    expect_same_answer(*answer, ask_alone(engine, image, question_of(i), default_plan()), 0);
    const Look& look = answer->trace.looks[0];
    EXPECT_GT(look.glance_tokens, 0);
    EXPECT_EQ(look.encoded_tokens, look.plan.tokens() - (i > 0 ? look.glance_tokens : 0));
    EXPECT_GE(answer->trace.usage.kept_tokens, i > 0 ? look.glance_tokens : 0);
    const MemoryUsage& memory = answer->trace.usage.memory;
    EXPECT_EQ(memory.hits, 2 * i) << "the tower's, and the language model's";
    EXPECT_EQ(memory.evictions, 0);
    // A look behind the glance is written to its last page, of which these small models have one.
    if (!GetParam()) {
      EXPECT_GT(memory.shared, 0);
    }
    EXPECT_GE(memory.reserved, memory.resident - memory.cached);
  }
  sessions.clear();
  const MemoryUsage idle = engine.memory();
  EXPECT_EQ(idle.reserved, 0);
  EXPECT_EQ(idle.resident, idle.cached);
  EXPECT_GT(idle.cached, 0);
}

TEST_P(ShareTest, AnotherPictureOrSaltSharesNothing) {
  const Engine engine = load();
  AskOptions options = default_plan();
  ASSERT_TRUE(ask(engine, picture(), question_of(0), options));
  ASSERT_TRUE(ask(engine, picture(1), question_of(0), options));
  EXPECT_EQ(engine.memory().hits, 0) << "a pixel differs";
  options.salt = "another user";
  ASSERT_TRUE(ask(engine, picture(), question_of(0), options));
  EXPECT_EQ(engine.memory().hits, 0);
  ASSERT_TRUE(ask(engine, picture(), question_of(1), options));
  EXPECT_EQ(engine.memory().hits, 2);
  options.size_bias = true;
  ASSERT_TRUE(ask(engine, picture(), question_of(1), options));
  EXPECT_EQ(engine.memory().hits, 2) << "the tower counts patches in another way";
  options.size_bias = false;
  for (const char* kind : {"local3", "local5", "dense,local3", "hierarchical:0.5"}) {
    options.tower_attention = kind;
    ASSERT_TRUE(ask(engine, picture(), question_of(1), options));
    EXPECT_EQ(engine.memory().hits, 2) << "the tower attends in another way: " << kind;
  }
  options.tower_attention = "dense";
  int64_t hits = 4;
  ASSERT_TRUE(ask(engine, picture(), question_of(1), options));
  EXPECT_EQ(engine.memory().hits, hits) << "it is what it would be without being said";
  for (const char* kind : {"prefix", "window", "dense,top-blocks"}) {
    options.text_attention = kind;
    ASSERT_TRUE(ask(engine, picture(), question_of(1), options));
    EXPECT_EQ(engine.memory().hits, ++hits) << "the tower's alone; " << kind;
    ASSERT_TRUE(ask(engine, picture(), question_of(2), options));
    EXPECT_EQ(engine.memory().hits, hits += 2) << kind;
  }
}

TEST_P(ShareTest, ARequestThatMayNotFitIsRefusedWithBothFiguresBeforeItStarts) {
  const Engine roomy = load();
  ASSERT_TRUE(ask(roomy, picture(), question_of(0), default_plan()));  // the vocabulary is there
  const auto measured = ask(roomy, picture(), question_of(0), default_plan());
  ASSERT_TRUE(measured);
  const int64_t need = measured->trace.usage.memory.reserved;

  const Engine exact = load(need);
  EXPECT_EQ(exact.memory().capacity, need);
  const auto answer = ask(exact, picture(), question_of(0), default_plan());
  ASSERT_TRUE(answer) << answer.error().message;
  expect_same_answer(*answer, *measured, 0);

  const Engine small = load(need - 1);
  const auto refused = ask(small, picture(), question_of(0), default_plan());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::kFailed);
  EXPECT_NE(refused.error().message.find("of memory, but "), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(small.memory().resident, 0) << "nothing was computed";
  EXPECT_EQ(small.memory().reserved, 0);
  AskOptions passing = default_plan();
  passing.plan = "uniform";  // of which the tower keeps nothing
  const auto fits = ask(small, picture(), "?", passing);
  EXPECT_TRUE(fits) << fits.error().message;
}

TEST_P(ShareTest, InASmallPoolBeginningsComeAndGoAndAnswersStay) {
  const Engine roomy = load();
  ASSERT_TRUE(ask(roomy, picture(), question_of(0), default_plan()));
  const auto measured = ask(roomy, picture(), question_of(0), default_plan());
  ASSERT_TRUE(measured);
  const Engine engine = load(measured->trace.usage.memory.reserved * 5 / 4);
  for (int i = 0; i < 24; ++i) {
    const Image image = picture(static_cast<uint8_t>(i * 5 % 7));
    const auto answer = ask(engine, image, question_of(i % 10), default_plan());
    ASSERT_TRUE(answer) << answer.error().message;
    expect_same_answer(*answer, ask_alone(roomy, image, question_of(i % 10), default_plan()), 0);
  }
  EXPECT_GT(engine.memory().evictions, 0);
  EXPECT_LE(engine.memory().resident, engine.memory().capacity);
}

TEST_P(ShareTest, SessionsInSeveralThreadsGetTheirOwnAnswers) {
  const Engine engine = load();
  const Image images[] = {picture(0), picture(1)};
  std::vector<Answer> expected;
  for (int i = 0; i < 4; ++i)
    expected.push_back(ask_alone(engine, images[i % 2], question_of(i), default_plan()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 4; ++round) {
        const auto answer = ask(engine, images[i % 2], question_of(i), default_plan());
        ASSERT_TRUE(answer) << answer.error().message;
        expect_same_answer(*answer, expected[static_cast<size_t>(i)], 0);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(engine.memory().hits, 2 * 12);
}

INSTANTIATE_TEST_SUITE_P(models, ShareTest, testing::Bool());

}  // namespace
}  // namespace fovea
