// SPDX-License-Identifier: Apache-2.0
// The checkpoint of tools/golden/ask.py, and what transformers answers with it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/fovea.h"
#include "places.h"

namespace fovea::test {

inline std::string ask_path(const std::string& name = "") {
  return source_dir() + "/tests/fixtures/ask" + (name.empty() ? "" : "/" + name);
}

// The checkpoint of tools/golden/gaze.py, which has a level embedding and a gaze head.
inline std::string gaze_path(const std::string& name = "") {
  return source_dir() + "/tests/fixtures/gaze" + (name.empty() ? "" : "/" + name);
}

inline const nlohmann::json& ask_golden() {
  static const auto golden = nlohmann::json::parse(std::ifstream(ask_path("golden.json")));
  return golden;
}

inline Engine load_engine(const LoadOptions& options = {}, const std::string& folder = ask_path()) {
  auto engine = Engine::load(folder, options);
  if (!engine) throw std::runtime_error(engine.error().message);
  return std::move(*engine);
}

// A conversation of the golden; its pictures are added to the session in their order.
inline std::vector<Message> messages_of(const nlohmann::json& chat, Session& session) {
  std::vector<Message> messages;
  int images = 0;
  for (const auto& message : chat) {
    Message made{message["role"], {}};
    for (const std::string part : message["parts"]) {
      if (!part.ends_with(".png")) {
        made.parts.push_back({-1, part});
        continue;
      }
      const Status added = session.add(ask_path(part));
      EXPECT_TRUE(added) << added.error().message;
      made.parts.push_back({images++, ""});
    }
    messages.push_back(std::move(made));
  }
  return messages;
}

// Every cell of level 0, 64 tokens past any end, five likely tokens a step: as the golden was made.
inline AskOptions golden_options() {
  AskOptions options;
  options.plan = "uniform";
  options.max_tokens = 64;
  options.ignore_end = true;
  options.likely_tokens = 5;
  return options;
}

inline std::vector<int> ids_of(const Answer& answer) {
  std::vector<int> ids;
  for (const AnswerToken& token : answer.tokens) ids.push_back(token.id);
  return ids;
}

// The same tokens, and log-probabilities that differ by no more than rounding.
inline void expect_same_answer(const Answer& got, const Answer& expected, double tolerance) {
  EXPECT_EQ(got.text, expected.text);
  EXPECT_EQ(got.finish, expected.finish);
  ASSERT_EQ(ids_of(got), ids_of(expected));
  for (size_t i = 0; i < got.tokens.size(); ++i)
    ASSERT_NEAR(got.tokens[i].logprob, expected.tokens[i].logprob, tolerance) << "step " << i;
}

}  // namespace fovea::test
