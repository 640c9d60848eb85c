// SPDX-License-Identifier: Apache-2.0
// In the 100 % mode the whole path, from files to answers, equals transformers.
#include <gtest/gtest.h>

#include "engine/test_ask.h"

namespace fovea {
namespace {

using test::ask_golden;
using test::golden_options;
using test::ids_of;
using test::load_engine;
using test::messages_of;

void expect_golden(const Answer& answer, const nlohmann::json& golden) {
  EXPECT_EQ(answer.trace.prompt, golden["prompt"].get<std::string>());
  EXPECT_EQ(answer.trace.usage.text_tokens + answer.trace.usage.image_tokens,
            static_cast<int64_t>(golden["prompt_ids"].size()));
  ASSERT_EQ(ids_of(answer), golden["tokens"].get<std::vector<int>>());
  for (size_t step = 0; step < answer.tokens.size(); ++step) {
    const AnswerToken& token = answer.tokens[step];
    ASSERT_EQ(token.likely.size(), 5u);
    EXPECT_EQ(token.likely[0].id, token.id);
    for (size_t i = 0; i < 5; ++i) {
      // float32 in another order of sums: the logits, of a size of about ten, differ by 1e-5.
      EXPECT_NEAR(token.likely[i].logprob, golden["logprobs"][step][i], 1e-4)
          << "step " << step << ", token " << i;
    }
  }
}

TEST(parity_ask, EveryConversationIsAnsweredAsTransformersDoes) {
  const Engine engine = load_engine();
  EXPECT_EQ(engine.info().weights, "f32");
  for (const auto& [name, golden] : ask_golden().items()) {
    SCOPED_TRACE(name);
    Session session = engine.session();
    const auto messages = messages_of(golden["chat"], session);
    const auto answer = session.ask(messages, golden_options());
    ASSERT_TRUE(answer) << answer.error().message;
    expect_golden(*answer, golden);
    EXPECT_EQ(answer->finish, "length");
  }
}

TEST(parity_ask, APlanOfEveryCellInAnyOrderIsTheUniformPlan) {
  const Engine engine = load_engine();
  const auto& golden = ask_golden()["one"];
  Session session = engine.session();
  const auto messages = messages_of(golden["chat"], session);
  AskOptions options = golden_options();
  options.plans.resize(1);
  for (int col = 6; col >= 0; --col)
    for (int row = 0; row < 3; ++row) options.plans[0].cells.push_back({0, row, col});
  const auto answer = session.ask(messages, options);
  ASSERT_TRUE(answer) << answer.error().message;
  expect_golden(*answer, golden);
}

}  // namespace
}  // namespace fovea
