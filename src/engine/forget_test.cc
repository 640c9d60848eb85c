// SPDX-License-Identifier: Apache-2.0
// Forgetting in whole requests: pages go back, questions that follow go on from what is left, and
// what sessions share stays whole.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "engine/test_ask.h"

namespace fovea {
namespace {

using test::expect_same_answer;
using test::load_engine;

constexpr int64_t kVisual = 64;
// Of the model tiny: two heads of 64; a page has room for 64 tokens of the tower's four.
constexpr int64_t kLayers = 6;
constexpr int64_t kTokenBytes = int64_t{2} * 2 * 64 * 4;
constexpr int64_t kPageBytes = 64 * 2 * kTokenBytes;

Engine load_tiny(int64_t memory_bytes = 0) {
  LoadOptions options;
  options.memory_bytes = memory_bytes;
  options.threads = 2;
  return load_engine(options, source_dir() + "/models/tiny");
}

// Cells of noise, of which no two are alike; kVisual, unless a side is given.
Image picture(uint32_t seed = 1, int side_px = 256) {
  Image image;
  image.size = {side_px, side_px};
  image.rgb.resize(size_t{3} * static_cast<size_t>(side_px) * static_cast<size_t>(side_px));
  std::mt19937 random(seed);
  uint8_t value = 0;
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    if (i % 5 == 0) value = static_cast<uint8_t>(random());
    image.rgb[i] = value;
  }
  return image;
}

AskOptions forgetful(const std::string& policy = "vl-cache", double keep = 0.1) {
  AskOptions options;
  options.plan = "uniform";
  options.max_tokens = 6;
  options.ignore_end = true;
  options.keep = keep;
  options.forget = policy;
  return options;
}

Session session_of(const Engine& engine, const Image& image) {
  Session session = engine.session();
  EXPECT_TRUE(session.add(image));
  return session;
}

Answer ask(Session& session, const std::string& question, const AskOptions& options) {
  auto answer = session.ask(question, options);
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? std::move(*answer) : Answer{};
}

Message user(const std::string& text, bool image = false) {
  Message message{"user", {}};
  if (image) message.parts.push_back({0, ""});
  message.parts.push_back({-1, text});
  return message;
}

TEST(ForgetTest, PagesGoBackAndTheUsageSaysHowMany) {
  const Engine engine = load_tiny();
  constexpr int64_t kCells = 256;
  const Image image = picture(1, 512);
  for (const ForgetChoice& policy : forget_choices()) {
    const double keep = 0.1;
    Session session = session_of(engine, image);
    const Answer answer = ask(session, "What is that?", forgetful(policy.name, keep));
    const Usage& usage = answer.trace.usage;
    EXPECT_EQ(answer.tokens.size(), 6u);
    EXPECT_EQ(usage.image_tokens, kCells);
    EXPECT_EQ(usage.visual_keys, kCells * kLayers);
    EXPECT_EQ(usage.visual_keys_kept, std::llround(keep * kCells * kLayers)) << policy.name;
    // Whole pages, of which each layer may leave one unfilled; what the tower has is given back.
    const int64_t promised = (usage.visual_keys_kept + usage.text_tokens * kLayers) * kTokenBytes;
    EXPECT_GE(usage.kv_bytes_after, promised) << policy.name;
    EXPECT_LT(usage.kv_bytes_after, promised + kLayers * kPageBytes) << policy.name;
    EXPECT_GE(usage.kv_bytes_before, (kCells + usage.text_tokens) * kLayers * kTokenBytes);
    EXPECT_LE(answer.trace.kv_bytes, usage.kv_bytes_after + kLayers * kPageBytes);
    EXPECT_EQ(usage.memory.resident - usage.memory.cached, answer.trace.kv_bytes);
  }
  EXPECT_EQ(engine.memory().resident, engine.memory().cached);
}

TEST(ForgetTest, AQuestionThatFollowsGoesOnFromWhatIsLeft) {
  const Engine engine = load_tiny();
  Session session = session_of(engine, picture());
  const AskOptions options = forgetful();
  const std::vector<Message> first = {user("Read the sign.", true)};
  const auto one = session.ask(first, options);
  ASSERT_TRUE(one) << one.error().message;
  std::vector<Message> both = first;
  both.push_back({"assistant", {{-1, one->text}}});
  both.push_back(user("And what colour has it?"));
  const auto two = session.ask(both, options);
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_GT(two->trace.usage.kept_tokens, kVisual) << "nothing of the picture was read again";
  EXPECT_EQ(two->trace.usage.visual_keys, 0) << "nothing was left to forget";
  EXPECT_LE(two->trace.kv_bytes, one->trace.usage.kv_bytes_after * 2);
  // Asked again it is the same. The prompt's last token is read alone then, not with the question
  // before it: products of other shapes, which round otherwise.
  const auto two_again = session.ask(both, options);
  ASSERT_TRUE(two_again);
  expect_same_answer(*two_again, *two, 1e-5);
  EXPECT_EQ(two_again->trace.usage.visual_keys, 0);
}

// What one question kept is of no use to another one, nor to another policy.
TEST(ForgetTest, AnotherQuestionReadsThePictureAgain) {
  const Engine engine = load_tiny();
  const Image image = picture();
  Session session = session_of(engine, image);
  ask(session, "How many circles are there?", forgetful());
  for (const AskOptions& options : {forgetful(), forgetful("merge", 0.25),
                                    forgetful("sparse-vlm", 0.25), AskOptions(forgetful("", 1))}) {
    Session fresh = session_of(engine, image);
    const Answer expected = ask(fresh, "What is in the corner?", options);
    const Answer got = ask(session, "What is in the corner?", options);
    expect_same_answer(got, expected, 0);
    EXPECT_EQ(got.trace.usage.visual_keys, expected.trace.usage.visual_keys);
  }
}

// Sessions share the pages of a glance. One that forgets does so on pages of its own.
TEST(ForgetTest, ASharedBeginningIsNeverForgottenUnderAnother) {
  const Engine engine = load_tiny();
  const Image image = picture(2, 512);
  AskOptions whole;
  whole.max_tokens = 6;
  whole.ignore_end = true;
  AskOptions alone = whole;
  alone.share = false;
  AskOptions forgets = whole;
  forgets.keep = 0.2;
  const auto expected = [&](const std::string& question) {
    Session session = session_of(engine, image);
    return ask(session, question, alone);
  };
  Session first = session_of(engine, image);
  expect_same_answer(ask(first, "What is left?", whole), expected("What is left?"), 0);
  for (const char* policy : {"vl-cache", "merge"}) {  // rows that move, and rows that are made
    forgets.forget = policy;
    Session second = session_of(engine, image);
    const int64_t hits = engine.memory().hits;
    const Answer other = ask(second, "What is right?", forgets);
    EXPECT_GT(engine.memory().hits, hits) << "it has its glance from the first";
    EXPECT_GT(other.trace.usage.visual_keys, other.trace.usage.visual_keys_kept);
    expect_same_answer(ask(first, "What is below?", whole), expected("What is below?"), 0);
    Session third = session_of(engine, image);
    expect_same_answer(ask(third, "What is above?", whole), expected("What is above?"), 0);
    // It shares with others what it reads anew, not what is left of it.
    expect_same_answer(ask(second, "What is below?", whole), expected("What is below?"), 0);
  }
}

TEST(ForgetTest, RequestsSideBySideAnswerAsAlone) {
  const Engine engine = load_tiny();
  const Image image = picture(3);
  std::vector<AskOptions> wanted;
  for (const ForgetChoice& policy : forget_choices()) wanted.push_back(forgetful(policy.name, 0.2));
  wanted.push_back(forgetful("", 1));
  wanted.front().answers = 2;
  std::vector<Answer> alone;
  for (const AskOptions& options : wanted) {
    Session session = session_of(engine, image);
    alone.push_back(ask(session, "Where is it?", options));
  }
  std::vector<Session> sessions;
  std::vector<Ticket> tickets;
  for (const AskOptions& options : wanted) {
    sessions.push_back(session_of(engine, image));
    Request request;
    request.messages = {user("Where is it?", true)};
    request.options = options;
    auto ticket = sessions.back().submit(std::move(request));
    ASSERT_TRUE(ticket) << ticket.error().message;
    tickets.push_back(std::move(*ticket));
  }
  for (size_t i = 0; i < tickets.size(); ++i) {
    auto answer = tickets[i].wait();
    ASSERT_TRUE(answer) << answer.error().message;
    expect_same_answer(*answer, alone[i], 0);
    ASSERT_EQ(answer->others.size(), alone[i].others.size());
    for (size_t k = 0; k < answer->others.size(); ++k)
      expect_same_answer(answer->others[k], alone[i].others[k], 0);
  }
}

// Text between two pictures stays, and a second picture is forgotten beside what is left of the
// first.
TEST(ForgetTest, ASecondPictureIsForgottenBesideTheFirst) {
  const Engine engine = load_tiny();
  Session session = session_of(engine, picture());
  ASSERT_TRUE(session.add(picture(4)));
  for (const ForgetChoice& policy : forget_choices()) {
    const AskOptions options = forgetful(policy.name, 0.25);
    std::vector<Message> messages = {user("Read the sign.", true)};
    const auto one = session.ask(messages, options);
    ASSERT_TRUE(one) << one.error().message;
    messages.push_back({"assistant", {{-1, one->text}}});
    messages.push_back({"user", {{-1, "And here?"}, {1, ""}, {-1, "Say."}}});
    const auto two = session.ask(messages, options);
    ASSERT_TRUE(two) << two.error().message;
    EXPECT_GT(two->trace.usage.kept_tokens, kVisual) << policy.name;
    EXPECT_EQ(two->trace.usage.visual_keys, kVisual * kLayers) << "of the second alone";
    EXPECT_EQ(two->trace.usage.visual_keys_kept, kVisual * kLayers / 4) << policy.name;
    // Both at once, with text between them.
    const auto both = session.ask(
        std::vector<Message>{{"user", {{0, ""}, {-1, "and"}, {1, ""}, {-1, "Which?"}}}}, options);
    ASSERT_TRUE(both) << both.error().message;
    EXPECT_EQ(both->trace.usage.visual_keys, 2 * kVisual * kLayers);
    EXPECT_EQ(both->trace.usage.visual_keys_kept, 2 * kVisual * kLayers / 4) << policy.name;
  }
}

TEST(ForgetTest, WrongSettingsAreRefusedInOneLine) {
  const Engine engine = load_tiny();
  Session session = session_of(engine, picture());
  const auto refused = [&](const AskOptions& options, const std::string& words) {
    const auto answer = session.ask("What?", options);
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find(words), std::string::npos) << answer.error().message;
    EXPECT_EQ(answer.error().message.find('\n'), std::string::npos);
  };
  refused({.keep = 0}, "keep 0: give the share");
  refused({.keep = 1.5}, "keep 1.5: give the share");
  refused({.keep = 0.5, .forget = "all"},
          "there is no forgetting by \"all\"; choose one of vl-cache");
  refused({.forget = "merge"}, "forget \"merge\" forgets nothing while keep is 1");
  refused({.text_attention = "window", .keep = 0.5},
          "leave keep or the text's attention window out");
}

}  // namespace
}  // namespace fovea
