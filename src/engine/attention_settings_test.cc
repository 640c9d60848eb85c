// SPDX-License-Identifier: Apache-2.0
// Kinds of attention as a caller chooses them.
#include "engine/attention_settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "engine/test_ask.h"

namespace fovea {
namespace {

using test::ask_path;
using test::expect_same_answer;
using test::gaze_path;
using test::load_engine;

Result<Answer> ask(const Engine& engine, const AskOptions& options) {
  Session session = engine.session();
  EXPECT_TRUE(session.add(ask_path("wide.png")));
  return session.ask("What is this?", options);
}

AskOptions short_answer() {
  AskOptions options;
  options.max_tokens = 4;
  options.ignore_end = true;
  return options;
}

TEST(AttentionSettings, EveryChoiceIsTakenWhereItSaysAndRefusedElsewhere) {
  const Engine engine = load_engine();
  std::set<std::string> names;
  for (const AttentionChoice& choice : attention_choices()) {
    EXPECT_TRUE(names.insert(choice.name).second);
    EXPECT_FALSE(choice.description.empty());
    AskOptions options = short_answer();
    options.tower_attention = choice.name;
    EXPECT_EQ(static_cast<bool>(ask(engine, options)), choice.of_tower) << choice.name;
    options.tower_attention = "";
    options.text_attention = choice.name;
    EXPECT_EQ(static_cast<bool>(ask(engine, options)), choice.of_text) << choice.name;
  }
  EXPECT_TRUE(names.contains("dense") && names.contains("hierarchical"));
}

TEST(AttentionSettings, DenseIsWhatIsComputedWhereNothingIsSaid) {
  const Engine engine = load_engine();
  AskOptions options = short_answer();
  const auto expected = ask(engine, options);
  ASSERT_TRUE(expected);
  options.tower_attention = "dense";
  options.text_attention = "dense,dense";
  const auto answer = ask(engine, options);
  ASSERT_TRUE(answer) << answer.error().message;
  expect_same_answer(*answer, *expected, 0);
}

TEST(AttentionSettings, TheTowersKindChangesTheAnswersProbabilities) {
  const Engine engine = load_engine();
  AskOptions options = short_answer();
  options.plan = "uniform";
  const auto dense = ask(engine, options);
  options.tower_attention = "local3";
  const auto local = ask(engine, options);
  options.tower_attention = "";
  options.text_attention = "prefix";
  const auto prefix = ask(engine, options);
  ASSERT_TRUE(dense && local && prefix);
  EXPECT_NE(local->tokens[0].logprob, dense->tokens[0].logprob);
  EXPECT_NE(prefix->tokens[0].logprob, dense->tokens[0].logprob);
}

// More visual tokens than a chunk of the decoder holds, in two pictures.
TEST(AttentionSettings, LongPicturesAreReadWholeByPrefix) {
  const Engine engine = load_engine();
  AskOptions options = short_answer();
  options.plan = "uniform";
  options.text_attention = "prefix";
  Image image;
  image.size = {32 * 24, 32 * 25};
  for (int64_t i = 0; i < image.size.pixels() * 3; ++i)
    image.rgb.push_back(static_cast<uint8_t>(i * i / 977));
  const auto ask_both = [&](Session& session) { return session.ask("What?", options); };
  Session session = engine.session();
  ASSERT_TRUE(session.add(image));
  ASSERT_TRUE(session.add(image));
  const auto first = ask_both(session);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->trace.usage.image_tokens, 2 * 24 * 25);
  const auto again = ask_both(session);
  ASSERT_TRUE(again);
  EXPECT_GT(again->trace.usage.kept_tokens, 2 * 24 * 25);
  expect_same_answer(*again, *first, 1e-4);
}

TEST(AttentionSettings, WhatADeviceDoesNotHaveIsRefusedInOneLine) {
  if (emulated_library().empty()) GTEST_SKIP() << "the emulation is not built";
  setenv("FOVEA_CUDA_LIBRARY", emulated_library().c_str(), 1);
  const auto model = load_model(gaze_path(), {.device = "cuda"});
  unsetenv("FOVEA_CUDA_LIBRARY");
  ASSERT_TRUE(model) << model.error().message;
  AskOptions options;
  EXPECT_TRUE(check_attention(**model, options));
  options.tower_attention = options.text_attention = "dense";
  EXPECT_TRUE(check_attention(**model, options));
  options.tower_attention = "hierarchical";
  options.text_attention = "prefix";
  EXPECT_TRUE(check_attention(**model, options));
  for (const auto& [setting, kind] : {std::pair(&options.tower_attention, "dense,performer"),
                                      std::pair(&options.text_attention, "strided")}) {
    const std::string good = *setting;
    *setting = kind;
    const Status checked = check_attention(**model, options);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().kind, Error::Kind::kBadInput);
    EXPECT_NE(checked.error().message.find("does not compute it"), std::string::npos);
    EXPECT_EQ(checked.error().message.find('\n'), std::string::npos);
    *setting = good;
  }
}

}  // namespace
}  // namespace fovea
