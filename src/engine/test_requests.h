// SPDX-License-Identifier: Apache-2.0
// Requests of many kinds, for tests that run them side by side.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/test_ask.h"
#include "fovea/fovea.h"

namespace fovea::test {

inline Image picture(int number) {
  auto image = load_image(ask_path(number % 2 == 0 ? "wide.png" : "tall.png"));
  EXPECT_TRUE(image);
  image->rgb.front() = static_cast<uint8_t>(image->rgb.front() + number / 2);
  return std::move(*image);
}

inline Message question(const std::string& text, int images = 1) {
  Message message;
  for (int i = 0; i < images; ++i) message.parts.push_back({i, ""});
  message.parts.push_back({-1, text});
  return message;
}

// Half of the tokens, others at each step, and never none.
inline void mask_half(std::span<const int> answer_ids, std::span<uint64_t> allowed) {
  constexpr uint64_t kEvery = 0x5555'5555'5555'5555;
  const int by = answer_ids.empty() ? 0 : answer_ids.back() % 2;
  for (uint64_t& word : allowed) word &= kEvery << by;
}

inline constexpr int kCommonRequests = 30;
inline constexpr int kRareRequests = 10;
// Numbers below it give every kind of request.
inline constexpr int kRequests = kCommonRequests + 2 * kRareRequests;

// What fewer requests ask for: how memory is stored, what of it goes, which tokens may be drawn.
inline void ask_for_rare(int number, AskOptions& options) {
  switch (number % kRareRequests) {
    case 0:
      options.kv = "int8";
      break;
    case 1:
      options.keep = 0.5;
      break;
    case 2:
      options.keep = 0.3;
      options.forget = "merge";
      options.kv = "fp8,bf16";
      break;
    case 3:
      options.text_attention = "window";
      options.tower_attention = "local3";
      break;
    case 4:
      options.look = "mixed";
      options.relook = 1;
      options.max_tokens = 6;
      break;
    case 5:
      options.mask = mask_half;
      break;
    case 6:
      options.frequency_penalty = 0.7;
      options.presence_penalty = 0.4;
      options.repetition_penalty = 1.3;
      options.logit_bias = {{3, kBanBias}, {40, 2}};
      break;
    case 7:
      options.answers = 3;
      break;
    case 8:
      options.text_attention = "prefix,top-blocks";
      options.answers = 2;
      options.presence_penalty = 1;
      break;
    default:
      options.keep = 0.4;
      options.forget = "oldest";
      options.look = "mixed";
      options.relook = 0.5;
      options.mask = mask_half;
      break;
  }
}

// Looks, plans, samplings, reports; some with prompts of several chunks. The question holds a
// canary, "canary" and the number, that is in no other's.
inline Request request_of(int number) {
  Request request;
  request.images.push_back(picture(number % 6));
  std::string text = "What is canary" + std::to_string(number) + "?";
  if (number % 7 == 3)
    for (int i = 0; i < 150; ++i) text += " Say why.";
  if (number % 11 == 5) request.images.push_back(picture(number % 4));
  request.messages = {question(text, static_cast<int>(request.images.size()))};
  if (number % 5 == 2)
    request.messages.insert(request.messages.begin(),
                            {{"user", {{-1, "Hello"}}}, {"assistant", {{-1, "Hello you"}}}});
  AskOptions& options = request.options;
  options.budget_tokens = 8 + number % 3 * 8;
  options.max_tokens = 1 + number % 13;
  options.ignore_end = number % 3 != 0;
  options.likely_tokens = number % 4;
  options.attention = number % 4 == 1;
  options.answer_attention = number % 3 == 2;
  options.looks = 1 + number % 3;
  options.sure = 1;
  if (number % 3 == 1) options.look = number % 2 == 0 ? "mixed" : "crops";
  if (number % 8 == 7) options.plan = "quadtree";
  if (number % 2 == 1) options.temperature = 1;
  options.seed = static_cast<uint64_t>(number);
  if (number >= kCommonRequests) ask_for_rare(number, options);
  return request;
}

inline Ticket submit(const Engine& engine, Request request, Callbacks callbacks = {}) {
  auto ticket = engine.submit(std::move(request), std::move(callbacks));
  if (!ticket) throw std::runtime_error(ticket.error().message);
  return *ticket;
}

inline Answer answer_alone(const Engine& engine, int number) {
  Request request = request_of(number);
  request.options.share = false;
  const auto answer = submit(engine, std::move(request)).wait();
  if (!answer) throw std::runtime_error(answer.error().message);
  return *answer;
}

}  // namespace fovea::test
