// SPDX-License-Identifier: Apache-2.0
// Requests side by side: each answer is what it is alone, and what happens to one is its own.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "engine/scheduler.h"
#include "engine/test_ask.h"
#include "engine/test_interleavings.h"
#include "engine/test_requests.h"

namespace fovea {
namespace {

using test::answer_alone;
using test::ask_path;
using test::expect_same_answer;
using test::gaze_path;
using test::load_engine;
using test::request_of;
using test::submit;

// Of a stock model, which looks by crops, and of one that has a gaze head.
class SchedulerTest : public testing::TestWithParam<bool> {
 protected:
  static Engine load(int64_t memory_bytes = 0) {
    LoadOptions options;
    options.memory_bytes = memory_bytes;
    options.threads = 2;
    return load_engine(options, GetParam() ? gaze_path() : ask_path());
  }
};

INSTANTIATE_TEST_SUITE_P(models, SchedulerTest, testing::Bool());

TEST_P(SchedulerTest, AnswersInCompanyAreThoseAloneToTheLastBit) {
  constexpr int kRequests = Scheduler::kMostActive + 6;  // more than are active at once
  const Engine engine = load();
  const Engine other = load();
  std::vector<Ticket> tickets;
  std::vector<std::string> texts(kRequests);
  for (int i = 0; i < kRequests; ++i)
    tickets.push_back(
        submit(engine, request_of(i), {.on_text = [&texts, i](int answer, std::string_view piece) {
                 EXPECT_FALSE(piece.empty());
                 if (answer == 0) texts[static_cast<size_t>(i)] += piece;
                 return true;
               }}));
  for (int i = 0; i < kRequests; ++i) {
    const auto& answer = tickets[static_cast<size_t>(i)].wait();
    ASSERT_TRUE(answer) << answer.error().message;
    const Answer expected = answer_alone(other, i);
    expect_same_answer(*answer, expected, 0);
    EXPECT_EQ(answer->text, texts[static_cast<size_t>(i)]);
    for (size_t token = 0; token < expected.tokens.size(); ++token)
      EXPECT_EQ(answer->tokens[token].attention, expected.tokens[token].attention);
    for (size_t look = 0; look < expected.trace.looks.size(); ++look) {
      EXPECT_EQ(answer->trace.looks[look].plan.cells, expected.trace.looks[look].plan.cells);
      EXPECT_EQ(answer->trace.looks[look].attention, expected.trace.looks[look].attention);
    }
    EXPECT_NE(answer->trace.prompt.find("canary" + std::to_string(i) + "?"), std::string::npos);
  }
  EXPECT_EQ(engine.memory().reserved, 0);
}

TEST_P(SchedulerTest, WhoHasNoRoomWaitsAndStartsByPriority) {
  const Engine engine = load();
  const Answer expected = answer_alone(engine, 1);
  // Room for one and a half, found by trying.
  int64_t memory = 1 << 14;
  for (;; memory += 1 << 14) {
    ASSERT_LT(memory, int64_t{1} << 30);
    const Engine tried = load(memory);
    if (submit(tried, request_of(1)).wait()) break;
  }
  const Engine small = load(memory + memory / 2);
  std::vector<int> order;
  std::atomic<bool> go = false;
  std::vector<Ticket> tickets;
  for (const int priority : {0, 1, 3, 2, 3}) {
    Request request = request_of(1);
    request.priority = priority;
    const bool first = tickets.empty();
    if (first)
      request.options.keep_going = [&go] {
        while (!go) std::this_thread::yield();
        return true;
      };
    const int number = static_cast<int>(tickets.size());
    tickets.push_back(submit(small, std::move(request), {.on_done = [&order, number](const auto&) {
                               order.push_back(number);
                             }}));
    while (first && tickets[0].stage() == RequestStage::kWaiting) std::this_thread::yield();
  }
  EXPECT_EQ(tickets[3].stage(), RequestStage::kWaiting);
  go = true;
  for (const Ticket& ticket : tickets) {
    const auto& answer = ticket.wait();
    ASSERT_TRUE(answer) << answer.error().message;
    expect_same_answer(*answer, expected, 0);
  }
  EXPECT_EQ(order, (std::vector<int>{0, 2, 4, 3, 1}));
}

TEST_P(SchedulerTest, CancelledAndLateRequestsEndWithWhatTheyHave) {
  const Engine engine = load();
  std::optional<Ticket> ticket;
  Request request = request_of(1);
  request.options.max_tokens = 300;
  request.options.ignore_end = true;
  request.options.temperature = 0;
  std::atomic<bool> ready = false;
  ticket = submit(engine, request, {.on_text = [&](int, std::string_view) {
                    while (!ready) std::this_thread::yield();
                    ticket->cancel();
                    return true;
                  }});
  ready = true;
  const auto& cancelled = ticket->wait();
  ASSERT_TRUE(cancelled) << cancelled.error().message;
  EXPECT_EQ(cancelled->finish, "cancelled");
  EXPECT_FALSE(cancelled->text.empty());
  EXPECT_LT(cancelled->tokens.size(), 300u);
  EXPECT_TRUE(ticket->done());

  request.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const auto late = submit(engine, request).wait();
  ASSERT_TRUE(late) << late.error().message;
  EXPECT_EQ(late->finish, "deadline");
  EXPECT_TRUE(late->tokens.empty());

  request.deadline = std::chrono::steady_clock::time_point::max();
  const auto told =
      submit(engine, request, {.on_text = [](int, std::string_view) { return false; }});
  ASSERT_TRUE(told.wait());
  EXPECT_EQ(told.wait()->finish, "cancelled");
}

TEST_P(SchedulerTest, WhatACallbackThrowsIsItsOwn) {
  const Engine engine = load();
  const Answer expected = answer_alone(engine, 4);
  const auto threw = [] { throw std::runtime_error("mine"); };
  std::vector<Ticket> throwing;
  throwing.push_back(submit(engine, request_of(1), {.on_text = [&](int, std::string_view) {
                              threw();
                              return true;
                            }}));
  throwing.push_back(submit(engine, request_of(1), {.on_done = [&](const auto&) { threw(); }}));
  Request stopping = request_of(1);
  stopping.options.keep_going = [&] {
    threw();
    return true;
  };
  throwing.push_back(submit(engine, stopping));
  const Ticket sound = submit(engine, request_of(4));
  for (const Ticket& ticket : throwing)
    EXPECT_THROW(static_cast<void>(ticket.wait()), std::runtime_error);
  ASSERT_TRUE(sound.wait());
  expect_same_answer(*sound.wait(), expected, 0);
}

TEST_P(SchedulerTest, CallbacksMaySubmitAndMayNotWait) {
  const Engine engine = load();
  std::optional<Ticket> second;
  std::string refused;
  const Ticket first = submit(engine, request_of(1), {.on_done = [&](const auto&) {
                                second = submit(engine, request_of(2));
                                if (const auto& waited = second->wait(); !waited)
                                  refused = waited.error().message;
                              }});
  ASSERT_TRUE(first.wait());
  EXPECT_NE(refused.find("a callback waits"), std::string::npos) << refused;
  const Ticket asking = submit(engine, request_of(1), {.on_done = [&](const auto&) {
                                 for (int i = 0; i < 2; ++i) {
                                   const auto answer = engine.ask({ask_path("wide.png")}, "What?");
                                   EXPECT_FALSE(answer);
                                   EXPECT_EQ(answer.error().message, refused);
                                 }
                               }});
  ASSERT_TRUE(asking.wait());
  ASSERT_TRUE(second->wait());
  expect_same_answer(*second->wait(), answer_alone(engine, 2), 0);
}

TEST_P(SchedulerTest, ARequestOutlivesItsEngine) {
  std::optional<Engine> engine = load();
  const Answer expected = answer_alone(*engine, 5);
  const Ticket ticket = submit(*engine, request_of(5));
  engine.reset();
  ASSERT_TRUE(ticket.wait_for(std::chrono::minutes(1)));
  ASSERT_TRUE(ticket.wait()) << ticket.wait().error().message;
  expect_same_answer(*ticket.wait(), expected, 0);
}

TEST_P(SchedulerTest, SeveralAnswersHaveSeedsOfTheirOwn) {
  const Engine engine = load();
  Request request = request_of(1);
  request.options.max_tokens = 6;
  request.options.ignore_end = true;
  std::vector<Answer> expected;
  for (uint64_t seed : {7, 8, 9}) {
    request.options.seed = seed;
    expected.push_back(*submit(engine, request).wait());
  }
  request.options.seed = 7;
  request.options.answers = 3;
  std::vector<std::string> texts(3);
  const auto answer = submit(engine, request,
                             {.on_text =
                                  [&](int number, std::string_view piece) {
                                    texts[static_cast<size_t>(number)] += piece;
                                    return true;
                                  }})
                          .wait();
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->others.size(), 2u);
  EXPECT_EQ(answer->trace.usage.answer_tokens, 18);
  expect_same_answer(*answer, expected[0], 0);
  expect_same_answer(answer->others[0], expected[1], 1e-4);  // its last token was read by itself
  expect_same_answer(answer->others[1], expected[2], 1e-4);
  EXPECT_EQ(texts[1], answer->others[0].text);
  EXPECT_NE(answer->text, answer->others[0].text);
}

TEST_P(SchedulerTest, WrongRequestsAreRefusedAtOnce) {
  const Engine engine = load();
  const auto refused = [&](Request request, const std::string& must_say) {
    const auto ticket = engine.submit(std::move(request));
    ASSERT_FALSE(ticket) << must_say;
    EXPECT_NE(ticket.error().message.find(must_say), std::string::npos) << ticket.error().message;
  };
  refused({}, "must end with");
  Request request = request_of(1);
  request.images.clear();
  refused(request, "the session has 0");
  request = request_of(1);
  request.options.answers = 0;
  refused(request, "answers 0");
  request.options.answers = 129;
  refused(request, "answers 129: give 1 to 128");
  request = request_of(1);
  request.images[0] = Image();
  refused(request, "");
}

TEST_P(SchedulerTest, RandomInterleavings) {
  test::interleave({.folder = GetParam() ? gaze_path() : ask_path(),
                    .memory_bytes = int64_t{3} << 20,
                    .count = test::interleavings(300)});
}

TEST(SchedulerOfTiny, RandomInterleavings) {
  test::interleave({.folder = source_dir() + "/models/tiny",
                    .memory_bytes = int64_t{16} << 20,
                    .count = test::interleavings(40)});
}

}  // namespace
}  // namespace fovea
