// SPDX-License-Identifier: Apache-2.0
// What the library's callers get where memory runs out in the middle of a call: an error, and a
// session that answers the next question as if nothing had been.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "fovea/fovea.h"
#include "places.h"
#include "serve/http/http.h"
#include "serve/pictures/pictures.h"
#include "serve/room_queue.h"
#include "serve/workers.h"
#include "test_malloc.h"

namespace fovea {
namespace {

using test::kLeastOfAsking;
using test::kLeastOfLoading;
using test::Want;

// Calls to make fail: the first ones, then ever fewer, as many in all as take a few seconds.
std::vector<int64_t> chosen(int64_t all) {
  std::vector<int64_t> numbers;
  for (int64_t number = 1; number <= all; number += 1 + number / 6) numbers.push_back(number);
  return numbers;
}

void expect_out_of_memory(const Error& error) {
  EXPECT_EQ(error.kind, Error::Kind::kFailed) << error.message;
  EXPECT_NE(error.message.find("memory"), std::string::npos) << error.message;
}

// Of a request: what the server and a Python program tell apart by its reason.
void expect_no_memory_to_answer(const Error& error) {
  expect_out_of_memory(error);
  EXPECT_EQ(error.reason, Error::Reason::kMemory) << error.message;
}

std::string fixture(const std::string& name) { return source_dir() + "/tests/fixtures/" + name; }

struct Case {
  std::string model;
  std::vector<std::string> images;
  AskOptions options;
};

std::vector<Case> cases() {
  AskOptions looks;
  looks.max_tokens = 4;
  looks.looks = 2;
  looks.draw = true;
  AskOptions crops = looks;
  crops.look = "crops";
  crops.attention = true;
  crops.likely_tokens = 3;
  AskOptions stored = looks;
  stored.kv = "int8,fp8";
  AskOptions forgets = looks;
  forgets.keep = 0.5;
  AskOptions again = looks;
  again.look = "mixed";
  again.relook = 1;
  const std::vector<std::string> scene = {fixture("gaze/scene.png")};
  return {{fixture("gaze"), scene, looks},
          {fixture("ask"), {fixture("ask/wide.png"), fixture("ask/odd.png")}, crops},
          {fixture("gaze"), scene, stored},
          {fixture("gaze"), scene, forgets},
          {fixture("gaze"), scene, again}};
}

Session session_of_case(const Engine& engine, const Case& which) {
  Session session = engine.session();
  for (const std::string& image : which.images) EXPECT_TRUE(session.add(image));
  return session;
}

void expect_same(const Result<Answer>& got, const Answer& expected) {
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->text, expected.text);
  ASSERT_EQ(got->tokens.size(), expected.tokens.size());
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    EXPECT_EQ(got->tokens[i].id, expected.tokens[i].id);
    // A follow-up reads its prompt in other pieces, which rounds otherwise.
    EXPECT_NEAR(got->tokens[i].logprob, expected.tokens[i].logprob, 1e-5);
  }
  ASSERT_EQ(got->trace.looks.size(), expected.trace.looks.size());
  for (size_t i = 0; i < expected.trace.looks.size(); ++i)
    EXPECT_EQ(got->trace.looks[i].plan.cells, expected.trace.looks[i].plan.cells);
}

TEST(LibraryLowMemory, ASessionAnswersAsBeforeAfterAQuestionThatRanOutOfIt) {
  for (const Case& which : cases()) {
    const auto engine = Engine::load(which.model, {.threads = 2});
    ASSERT_TRUE(engine) << engine.error().message;
    const std::string question = "What is this?";
    // The vocabulary is read while the first question waits.
    ASSERT_TRUE(session_of_case(*engine, which).ask(question, which.options));
    Session first = session_of_case(*engine, which);
    int64_t all = 0;
    Result<Answer> expected = failed("");
    {
      const Want count(kLeastOfAsking);
      expected = first.ask(question, which.options);
      all = count.calls();
    }
    ASSERT_TRUE(expected) << expected.error().message;
    int refused = 0;
    for (const bool lasting : {false, true})
      for (const int64_t number : chosen(all)) {
        SCOPED_TRACE(which.model + ", call " + std::to_string(number) + " of " +
                     std::to_string(all) + (lasting ? " and all after" : ""));
        Session session = session_of_case(*engine, which);
        Result<Answer> answer = failed("");
        {
          const Want want(kLeastOfAsking, number, lasting);
          answer = session.ask(question, which.options);
        }
        if (!answer) {
          ++refused;
          expect_no_memory_to_answer(answer.error());
        }
        expect_same(session.ask(question, which.options), *expected);
        if (HasFatalFailure()) return;
      }
    EXPECT_GT(refused, 20);
  }
}

TEST(LibraryLowMemory, AFollowUpThatRanOutOfItLeavesTheSessionGood) {
  const Case which = cases().front();
  const auto engine = Engine::load(which.model, {.threads = 2});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = session_of_case(*engine, which).ask("What else?", which.options);
  ASSERT_TRUE(expected) << expected.error().message;
  for (int64_t number = 1; number < 2000; number += 80) {
    SCOPED_TRACE(number);
    Session session = session_of_case(*engine, which);
    ASSERT_TRUE(session.ask("What is this?", which.options));
    {
      const Want want(kLeastOfAsking, number);
      if (const auto answer = session.ask("What else?", which.options); !answer)
        expect_no_memory_to_answer(answer.error());
    }
    expect_same(session.ask("What else?", which.options), *expected);
  }
}

std::vector<Result<Answer>> ask_side_by_side(const Engine& engine, const Case& which) {
  std::vector<Ticket> tickets;
  std::vector<Result<Answer>> answers;
  for (int i = 0; i < 4; ++i) {
    Request request;
    Message& message = request.messages.emplace_back();
    for (const std::string& path : which.images) {
      auto image = load_image(path);
      if (!image) return {image.error()};
      message.parts.push_back({static_cast<int>(request.images.size()), ""});
      request.images.push_back(std::move(*image));
    }
    message.parts.push_back({-1, "What is number " + std::to_string(i) + "?"});
    request.options = which.options;
    request.options.max_tokens += i;
    auto ticket = engine.submit(std::move(request));
    if (!ticket) return {ticket.error()};
    tickets.push_back(std::move(*ticket));
  }
  for (const Ticket& ticket : tickets) answers.push_back(ticket.wait());
  return answers;
}

TEST(LibraryLowMemory, RequestsSideBySideRunOutOfItEachForItself) {
  for (const Case& which : cases()) {
    const auto engine = Engine::load(which.model, {.threads = 2});
    ASSERT_TRUE(engine) << engine.error().message;
    ask_side_by_side(*engine, which);
    std::vector<Result<Answer>> expected;
    int64_t all = 0;
    {
      const Want count(kLeastOfAsking);
      expected = ask_side_by_side(*engine, which);
      all = count.calls();
    }
    int refused = 0;
    int answered = 0;
    for (const int64_t number : chosen(all)) {
      SCOPED_TRACE(which.model + ", call " + std::to_string(number) + " of " + std::to_string(all));
      std::vector<Result<Answer>> answers;
      try {
        const Want want(kLeastOfAsking, number);
        answers = ask_side_by_side(*engine, which);
      } catch (const std::bad_alloc&) {
        continue;  // in this test's own vectors
      }
      for (size_t i = 0; i < answers.size(); ++i) {
        if (answers[i]) {
          ++answered;
          expect_same(answers[i], *expected[i]);
        } else {
          ++refused;
          expect_out_of_memory(answers[i].error());  // some of the picture's
        }
      }
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(refused, 10);
    EXPECT_GT(answered, refused);
    const auto again = ask_side_by_side(*engine, which);
    ASSERT_EQ(again.size(), expected.size());
    for (size_t i = 0; i < again.size(); ++i) expect_same(again[i], *expected[i]);
    EXPECT_EQ(engine->memory().reserved, 0);
    EXPECT_EQ(engine->memory().resident, engine->memory().cached);
  }
}

TEST(LibraryLowMemory, SubmittingGivesAnError) {
  const auto engine = Engine::load(fixture("gaze"), {.threads = 2});
  ASSERT_TRUE(engine) << engine.error().message;
  auto image = load_image(fixture("gaze/scene.png"));
  ASSERT_TRUE(image) << image.error().message;
  Request request;
  request.images.push_back(std::move(*image));
  request.messages = {{"user", {{0, ""}, {-1, "What is this?"}}}};
  request.options.max_tokens = 1;
  for (int64_t number = 1; number < 4; ++number) {
    SCOPED_TRACE(number);
    Request copy = request;
    Result<Ticket> ticket = failed("");
    {
      const Want want(kLeastOfAsking, number);
      ticket = engine->submit(std::move(copy));
    }
    if (ticket)
      ticket->wait();
    else
      expect_no_memory_to_answer(ticket.error());
    if (number == 1) {
      EXPECT_FALSE(ticket);
    }
  }
  EXPECT_TRUE(engine->submit(std::move(request)));
}

TEST(LibraryLowMemory, LoadingGivesAnErrorAndMayBeTriedAgain) {
  const std::string folder = fixture("gaze");
  int64_t all = 0;
  {
    const Want count(kLeastOfLoading);
    ASSERT_TRUE(Engine::load(folder, {.weights = "f32", .threads = 2}));
    all = count.calls();
  }
  for (const bool lasting : {false, true})
    for (const int64_t number : chosen(all)) {
      SCOPED_TRACE(number);
      Result<Engine> engine = failed("");
      {
        const Want want(kLeastOfLoading, number, lasting);
        engine = Engine::load(folder, {.weights = "f32", .threads = 2});
      }
      if (!engine) expect_out_of_memory(engine.error());
    }
  const auto engine = Engine::load(folder, {.weights = "f32", .threads = 2});
  EXPECT_TRUE(engine);
}

TEST(LibraryLowMemory, AnImageGivesAnErrorAndMayBeTriedAgain) {
  for (const std::string& image :
       {fixture("gaze/scene.png"), fixture("images/cmyk-progressive.jpg")}) {
    int64_t all = 0;
    {
      const Want count(1);
      ASSERT_TRUE(see(image, {.threads = 2}));
      all = count.calls();
    }
    for (const bool lasting : {false, true})
      for (const int64_t number : chosen(all)) {
        SCOPED_TRACE(image + " " + std::to_string(number));
        Result<Sight> sight = failed("");
        {
          const Want want(1, number, lasting);
          sight = see(image, {.threads = 2});
        }
        if (!sight) expect_out_of_memory(sight.error());
      }
    EXPECT_TRUE(see(image, {.threads = 2}));
  }
}

// A server that has no memory left still hears that it is to stop, before it has begun too.
TEST(ServerLowMemory, StopsWhereNoMemoryIsLeft) {
  for (const bool has_begun : {true, false}) {
    SCOPED_TRACE(has_begun);
    auto server = serve::HttpServer::listen({.port = 0, .limits = {}, .error_body = {}},
                                            [](const auto& exchange) { exchange->reply({}); });
    ASSERT_TRUE(server) << server.error().message;
    std::atomic<bool> may_run = has_begun;
    std::atomic<bool> has_ended = false;
    std::thread thread([&] {
      while (!may_run) std::this_thread::yield();
      (*server)->run();
      has_ended = true;
    });
    if (has_begun) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    {
      const Want want(1, 1, /*lasting=*/true);
      may_run = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      (*server)->stop(std::chrono::seconds(60));
      for (int i = 0; i < 1000 && !has_ended; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(has_ended);
    }
    thread.join();
  }
}

// Calls end, and so does the server, where nothing more can be taken.
TEST(ServerLowMemory, CallsLeaveAndJobsAreDroppedWithoutMemory) {
  serve::RoomQueue queue;
  int tries = 0;
  queue.enter();
  queue.enter();
  ASSERT_TRUE(queue.wait(&tries, [&] { ++tries; }));
  auto workers = std::make_unique<serve::Workers>();
  workers->add([] {});  // never begun: no thread was started
  {
    const Want want(1, 1, /*lasting=*/true);
    queue.leave();
    workers.reset();
  }
  EXPECT_EQ(tries, 1);
}

// Whatever fails of it: the client's picture is not to blame.
TEST(ServerLowMemory, APictureThatMemoryIsMissingForIs503) {
  const std::string url = "file://" + fixture("images/rgb-8.png");
  const serve::PictureLimits limits{.folder = fixture("images")};
  int64_t all = 0;
  {
    const Want count(1);
    const auto loaded = serve::load_picture(url, limits, "image");
    ASSERT_TRUE(std::holds_alternative<Image>(loaded));
    all = count.calls();
  }
  int refused = 0;
  for (int64_t number = 1; number <= all; ++number) {
    serve::ApiResult<Image> loaded = Image();
    {
      const Want want(1, number);
      loaded = serve::load_picture(url, limits, "image");
    }
    const auto* error = std::get_if<serve::ApiError>(&loaded);
    if (error == nullptr) continue;
    ++refused;
    EXPECT_EQ(error->status, 503) << number << ": " << error->message;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace fovea
