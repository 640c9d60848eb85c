// SPDX-License-Identifier: Apache-2.0
// Keys and values that are stored in fewer bytes, in whole requests.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/test_ask.h"

namespace fovea {
namespace {

using test::expect_same_answer;
using test::load_engine;

Engine load_tiny() {
  LoadOptions options;
  options.threads = 2;
  return load_engine(options, source_dir() + "/models/tiny");
}

// 64 cells, unless a side is given.
Image picture(uint32_t seed, int side_px) {
  Image image;
  image.size = {side_px, side_px};
  image.rgb.resize(size_t{3} * static_cast<size_t>(side_px) * static_cast<size_t>(side_px));
  std::mt19937 random(seed);
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    const auto value = static_cast<uint8_t>((i / 96 % 2 + i / 49152 % 2) * 100 + random() % 50);
    std::fill_n(image.rgb.begin() + static_cast<ptrdiff_t>(i), 3, value);
  }
  return image;
}

AskOptions stored_as(const std::string& kv) {
  AskOptions options;
  options.plan = "uniform";
  options.max_tokens = 6;
  options.ignore_end = true;
  options.kv = kv;
  return options;
}

struct Told {
  Answer answer;
  std::vector<std::vector<float>> logits;  // of each step
};

Told ask(Session& session, const std::string& question, AskOptions options) {
  Told told;
  options.on_logits = [&](std::span<const float> logits) {
    told.logits.emplace_back(logits.begin(), logits.end());
  };
  auto answer = session.ask(question, options);
  EXPECT_TRUE(answer) << answer.error().message;
  if (answer) told.answer = std::move(*answer);
  return told;
}

Session session_of(const Engine& engine, int side_px = 256) {
  Session session = engine.session();
  EXPECT_TRUE(session.add(picture(1, side_px)));
  return session;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// What a step of the format costs, in the direction of all logits of the vocabulary.
TEST(KvTest, LogitsStayWhereTheyWere) {
  const Engine engine = load_tiny();
  Session whole = session_of(engine);
  const Told f32 = ask(whole, "How many circles are there?", stored_as(""));
  struct Expected {
    const char* kv;
    double cosine;
  };
  for (const Expected& one :
       {Expected{"f32", 1 - 1e-12}, Expected{"bf16", 0.9999}, Expected{"int8", 0.999},
        Expected{"f32,int8", 0.999}, Expected{"fp8", 0.99}}) {
    Session session = session_of(engine);
    const Told told = ask(session, "How many circles are there?", stored_as(one.kv));
    ASSERT_FALSE(told.logits.empty());
    EXPECT_GE(cosine(told.logits.front(), f32.logits.front()), one.cosine) << one.kv;
    if (std::string(one.kv) == "f32") expect_same_answer(told.answer, f32.answer, 0);
  }
}

// 256 visual tokens and a question, of 6 layers; a page holds 128 tokens of f32.
TEST(KvTest, PagesHoldMoreTokens) {
  const Engine engine = load_tiny();
  const auto bytes = [&](const std::string& kv) {
    Session session = session_of(engine, 512);
    return ask(session, "What is that?", stored_as(kv)).answer.trace.kv_bytes;
  };
  const int64_t f32 = bytes("");
  EXPECT_EQ(bytes("bf16") * 3, f32 * 2) << "two pages a layer in place of three";
  EXPECT_EQ(bytes("int8") * 3, f32) << "one page";
  EXPECT_EQ(bytes("f32,int8") * 3, f32 * 2) << "three pages and one by turns";
}

// A session may change its format from question to question: it reads again what it must.
TEST(KvTest, AQuestionInAnotherFormatIsAnsweredAsByAFreshSession) {
  const Engine engine = load_tiny();
  Session session = session_of(engine);
  for (const char* kv : {"int8", "", "f32,int8", "int8", "int8"}) {
    Session fresh = session_of(engine);
    AskOptions alone = stored_as(kv);
    alone.share = false;
    const Told expected = ask(fresh, "What is left?", alone);
    const Told got = ask(session, "What is left?", stored_as(kv));
    expect_same_answer(got.answer, expected.answer, 1e-5);
    EXPECT_EQ(got.answer.trace.kv_bytes, expected.answer.trace.kv_bytes) << kv;
  }
}

// Sessions share what they read in the same format alone.
TEST(KvTest, ABeginningIsSharedWithinAFormat) {
  const Engine engine = load_tiny();
  const auto options = [](const char* kv) {
    AskOptions one = stored_as(kv);
    one.plan = "glance+look";
    return one;
  };
  const auto hits_of = [&](const char* kv, const char* question) {
    AskOptions alone = options(kv);
    alone.share = false;
    Session fresh = session_of(engine, 512);
    const Told expected = ask(fresh, question, alone);
    const int64_t before = engine.memory().hits;
    Session session = session_of(engine, 512);
    expect_same_answer(ask(session, question, options(kv)).answer, expected.answer, 0);
    return engine.memory().hits - before;
  };
  EXPECT_EQ(hits_of("int8", "What is left?"), 0);
  EXPECT_EQ(hits_of("int8", "What is right?"), 2) << "the tower's and the decoder's";
  EXPECT_EQ(hits_of("fp8", "What is right?"), 1) << "the tower's";
  EXPECT_EQ(hits_of("", "What is above?"), 1);
  EXPECT_EQ(hits_of("fp8", "What is below?"), 2);
}

TEST(KvTest, ForgettingCountsItsBytes) {
  const Engine engine = load_tiny();
  for (const ForgetChoice& policy : forget_choices()) {
    AskOptions options = stored_as("int8");
    options.keep = 0.1;
    options.forget = policy.name;
    Session session = session_of(engine);
    const Told first = ask(session, "What is that?", options);
    const Usage& usage = first.answer.trace.usage;
    EXPECT_EQ(first.answer.tokens.size(), 6u) << policy.name;
    EXPECT_EQ(usage.visual_keys_kept, std::llround(0.1 * 64 * 6)) << policy.name;
    EXPECT_LE(usage.kv_bytes_after, usage.kv_bytes_before) << policy.name;
    EXPECT_EQ(usage.memory.resident - usage.memory.cached, first.answer.trace.kv_bytes);
    const Told again = ask(session, "What is that?", options);
    EXPECT_EQ(again.answer.text, first.answer.text) << policy.name;
  }
}

TEST(KvTest, WrongSettingsAreRefusedInOneLine) {
  const Engine engine = load_tiny();
  Session session = session_of(engine);
  const auto refused = [&](const AskOptions& options, const std::string& words) {
    const auto answer = session.ask("What?", options);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind, Error::Kind::kBadInput);
    EXPECT_NE(answer.error().message.find(words), std::string::npos) << answer.error().message;
    EXPECT_EQ(answer.error().message.find('\n'), std::string::npos);
  };
  refused({.kv = "int4"}, "kv \"int4\": there is no such format");
  refused({.kv = "f32,int8,f32,int8,f32,int8,f32"}, "give at most 6");
  refused({.text_attention = "window", .kv = "int8"},
          "leave kv or the text's attention window out");
}

}  // namespace
}  // namespace fovea
