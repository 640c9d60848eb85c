// SPDX-License-Identifier: Apache-2.0
// The embedded model: it is an ordinary checkpoint, it reads by looking, and it does not guess.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "cards/cards.h"
#include "fovea/fovea.h"
#include "places.h"

namespace fovea {
namespace {

constexpr uint64_t kFirstSeed = uint64_t{1} << 40;  // seeds below are training's

Engine tiny(const char* weights = "") {
  const auto folder = find_model("tiny");
  EXPECT_TRUE(folder) << folder.error().message;
  auto engine = Engine::load(*folder, {.weights = weights});
  EXPECT_TRUE(engine) << engine.error().message;
  return *engine;
}

// The share of right answers to `count` questions of a family, a scene for every four.
double accuracy(const Engine& engine, Family family, int count, const CardOptions& cards,
                bool noise = false) {
  int right = 0;
  AskOptions options;
  options.max_tokens = 8;
  for (int scene_number = 0; scene_number * 4 < count; ++scene_number) {
    const uint64_t seed = kFirstSeed + 1000 * (static_cast<uint64_t>(family) + 1) +
                          static_cast<uint64_t>(scene_number);
    CardScene scene = make_scene(seed, cards);
    uint64_t bits = seed;
    if (noise) {
      for (uint8_t& value : scene.image.rgb) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        value = static_cast<uint8_t>(bits >> 56);
      }
    }
    const std::vector<CardQuestion> questions =
        make_questions(scene, seed, std::span<const Family>(&family, 1), 4);
    Session session = engine.session();
    EXPECT_TRUE(session.add(std::move(scene.image)));
    for (const CardQuestion& question : questions) {
      const auto answer = session.ask(question.text, options);
      EXPECT_TRUE(answer) << answer.error().message;
      if (answer) right += answer->text == question.answer ? 1 : 0;
    }
  }
  return static_cast<double>(right) / count;
}

TEST(parity_tiny, AnswersAsTransformersDoesWithEveryCell) {
  std::ifstream file(source_dir() + "/tests/fixtures/tiny/golden.json");
  const auto golden = nlohmann::json::parse(file);
  CardOptions cards;
  cards.size = {golden["side_px"], golden["side_px"]};
  cards.cards_min = cards.cards_max = golden["cards"];
  Session session = tiny("f32").session();
  ASSERT_TRUE(session.add(make_scene(golden["seed"], cards).image));
  AskOptions options;
  options.plan = "uniform";
  options.max_tokens = 8;
  options.likely_tokens = 5;
  for (const auto& wanted : golden["answers"]) {
    const std::string question = wanted["question"];
    const auto answer = session.ask(question, options);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->trace.usage.text_tokens + answer->trace.usage.image_tokens,
              wanted["prompt_tokens"]);
    ASSERT_EQ(answer->tokens.size(), wanted["tokens"].size()) << question;
    for (size_t step = 0; step < answer->tokens.size(); ++step) {
      EXPECT_EQ(answer->tokens[step].id, wanted["tokens"][step]) << question;
      // float32 in another order of sums; unlikely tokens are told to fewer digits.
      for (size_t i = 0; i < 2; ++i)
        EXPECT_NEAR(answer->tokens[step].likely[i].logprob, wanted["logprobs"][step][i], 2e-3)
            << question;
    }
  }
}

TEST(Tiny, ReadsWith96TokensByItsOwnGaze) {
  const Engine engine = tiny();
  EXPECT_LE(engine.info().parameters, 12'000'000);
  // Measured with 1,000 questions each: all above 98 % (docs/results.md).
  for (const Family family :
       {Family::kRead, Family::kCount, Family::kExist, Family::kGap, Family::kTicks})
    EXPECT_GE(accuracy(engine, family, 12, {}), 0.9) << family_name(family);
}

TEST(Tiny, WithItsPayloadsBlackedOutItCanOnlyGuess) {
  const Engine engine = tiny();
  const CardOptions blank{.blank_payloads = true};
  EXPECT_LE(accuracy(engine, Family::kRead, 12, blank), 0.1);   // one of 1,024 codes
  EXPECT_LE(accuracy(engine, Family::kGap, 12, blank), 0.6);    // one of four directions
  EXPECT_LE(accuracy(engine, Family::kTicks, 12, blank), 0.5);  // one of six numbers
}

TEST(Tiny, WithNoiseForAPictureItCanOnlyGuess) {
  const Engine engine = tiny();
  EXPECT_LE(accuracy(engine, Family::kRead, 12, {}, true), 0.1);
  EXPECT_LE(accuracy(engine, Family::kExist, 12, {}, true), 0.8);
}

}  // namespace
}  // namespace fovea
