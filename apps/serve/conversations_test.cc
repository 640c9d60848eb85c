// SPDX-License-Identifier: Apache-2.0
#include "serve/conversations.h"

#include <gtest/gtest.h>

#include <set>

namespace fovea::serve {
namespace {

Engine tiny() {
  static const Engine engine = *Engine::load("tiny", {.threads = 1});
  return engine;
}

TEST(Conversations, ASessionIsFoundOnceByWhatWasSaid) {
  Conversations kept(2);
  const Digest said{1, 2};
  EXPECT_FALSE(kept.take(said));
  kept.keep(said, {tiny().session()});
  EXPECT_TRUE(kept.take(said));
  EXPECT_FALSE(kept.take(said));
}

TEST(Conversations, TheOldestGoFirst) {
  Conversations kept(2);
  for (uint64_t i = 0; i < 3; ++i) kept.keep({i, 0}, {tiny().session()});
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_FALSE(kept.take({0, 0}));
  EXPECT_TRUE(kept.forget_oldest());
  EXPECT_FALSE(kept.take({1, 0}));
  EXPECT_TRUE(kept.take({2, 0}));
  EXPECT_FALSE(kept.forget_oldest());
}

TEST(Conversations, PicturesOfTooManyBytesAreNotKept) {
  Conversations kept(10, 100);
  for (uint64_t i = 0; i < 3; ++i) kept.keep({i, 0}, {tiny().session(), 40});
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_FALSE(kept.take({0, 0}));
  kept.keep({9, 0}, {tiny().session(), 101});
  EXPECT_FALSE(kept.take({9, 0}));
  EXPECT_EQ(kept.take({1, 0})->bytes, 40);
  kept.keep({3, 0}, {tiny().session(), 60});
  EXPECT_EQ(kept.size(), 2u);
}

TEST(Conversations, CallsOfToolsAreTheSameInEveryOrderOfTheirKeys) {
  const AskOptions options;
  const auto digest = [&](std::vector<Part> parts, const std::string& calls) {
    const std::vector<Message> said = {{"assistant", std::move(parts), calls}};
    return digest_of_messages({0, options, {}}, said);
  };
  const Digest first = digest({}, R"([{"id":"a","type":"function","function":{"name":"f",)"
                                  R"("arguments":{"x":1,"y":2}}}])");
  EXPECT_EQ(first, digest({{-1, ""}}, R"([{"function":{"arguments":{"y":2,"x":1},"name":"f"},)"
                                      R"("type":"function","id":"b"}])"));
  EXPECT_NE(first, digest({{-1, "A"}}, R"([{"function":{"name":"f","arguments":{"x":1,"y":2}}}])"));
  EXPECT_NE(first, digest({}, R"([{"function":{"name":"f","arguments":{"x":1,"y":3}}}])"));
  EXPECT_NE(first, digest({}, ""));
}

TEST(Conversations, AreToldApartByEverythingThatMatters) {
  const std::vector<Digest> pictures = {{1, 1}, {2, 2}};
  const std::vector<Message> said = {{"user", {{0, ""}, {-1, "What?"}}},
                                     {"assistant", {{-1, "A"}}}};
  std::set<std::pair<uint64_t, uint64_t>> seen;
  const auto add = [&](int key, const AskOptions& options, std::span<const Message> messages) {
    const Digest digest = digest_of_messages(ConversationScope{key, options, pictures}, messages);
    seen.insert({digest.low, digest.high});
  };
  AskOptions options;
  add(0, options, said);
  add(1, options, said);
  options.budget_tokens = 50;
  add(0, options, said);
  options = {};
  options.salt = "pepper";
  add(0, options, said);
  options = {};
  options.tower_attention = "local3";
  add(0, options, said);
  options = {};
  options.text_attention = "local3";
  add(0, options, said);
  options = {};
  options.enable_thinking = false;
  add(0, options, said);
  options = {};
  options.template_options = R"({"tone":"dry"})";
  add(0, options, said);
  options = {};
  auto other = said;
  other[0].parts[0].image = 1;
  add(0, options, other);
  other = said;
  other[0].role = "system";
  add(0, options, other);
  other = said;
  other[0].parts = {{0, ""}, {-1, "Wh"}, {-1, "at?"}};
  add(0, options, other);
  add(0, options, std::span(said).first(1));
  EXPECT_EQ(seen.size(), 12u);
  add(0, options, said);
  EXPECT_EQ(seen.size(), 12u);
}

TEST(Conversations, TheQuestionBeginsAfterTheLastAnswer) {
  const Message user{"user", {{-1, "a"}}};
  const Message assistant{"assistant", {{-1, "b"}}};
  EXPECT_EQ(said_before(std::vector<Message>{user}), 0u);
  EXPECT_EQ(said_before(std::vector<Message>{user, assistant, user}), 2u);
  EXPECT_EQ(said_before(std::vector<Message>{user, assistant, user, assistant, user, user}), 4u);
}

}  // namespace
}  // namespace fovea::serve
