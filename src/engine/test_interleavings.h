// SPDX-License-Identifier: Apache-2.0
// Requests that come, are cancelled, run late, throw, run out of memory and wait for room, at
// random, in a pool that is short of it: who answers answers as alone, sees nothing of the others,
// and no page is lost. tools/interleave runs thousands.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model.h"
#include "engine/test_ask.h"
#include "engine/test_requests.h"
#include "memory/test_canaries.h"

namespace fovea::test {

// Makes allocations fail.
class Failures {
 public:
  virtual ~Failures() = default;
  virtual void fail_after(int calls) = 0;  // the next one but so many
  // Whether those of this thread may fail too, which they may not before this is called.
  virtual void may_fail_here(bool may) = 0;
  virtual void end() = 0;
};

struct Interleavings {
  std::string folder;  // of the model
  int64_t memory_bytes = 0;
  int count = 0;
  Failures* failures = nullptr;  // null: nothing is made to fail
};

// How many there are to be.
inline int interleavings(int count) {
  const char* asked = std::getenv("FOVEA_INTERLEAVINGS");
  return asked != nullptr ? std::atoi(asked) : count;
}

class Interleaver {
 public:
  explicit Interleaver(Interleavings asked)
      : asked_(std::move(asked)), model_(load()), canaries_(model_->pool) {
    kinds_.reserve(static_cast<size_t>(asked_.count));
    for (int i = 0; i < asked_.count; ++i) kinds_.push_back(draw(kRequests));
    const Engine roomy = load_engine({.threads = 2}, asked_.folder);
    for (const int kind : kinds_)
      if (!alone_.contains(kind)) alone_.emplace(kind, answer_alone(roomy, kind));
  }

  void run() {
    // The vocabulary is read while the first request waits: that is not what is to fail. The second
    // one is like it, so that one at least shares memory with another.
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(session_of(model_).submit(request_of(0))->wait());
    EXPECT_GT(model_->pool->usage().hits, 0);
    for (const int kind : kinds_) {
      send(kind);
      if (draw(6) == 0) cancel_one();
      while (sent_.size() > kMostAtOnce) check_one();
      if (testing::Test::HasFatalFailure()) break;
    }
    while (!sent_.empty()) check_one();
    if (asked_.failures != nullptr) asked_.failures->end();
    const MemoryUsage memory = model_->pool->usage();
    EXPECT_EQ(memory.reserved, 0);
    EXPECT_EQ(memory.resident, memory.cached) << "what is held is held for later";
    EXPECT_GT(memory.evictions, 0);
    canaries_.expect_unseen(memory.resident);
    testing::Test::RecordProperty("answered", answered_);
    testing::Test::RecordProperty("out_of_memory", out_of_memory_);
    EXPECT_GT(answered_, asked_.count / 3);
    EXPECT_EQ(out_of_memory_ > 0, asked_.failures != nullptr) << out_of_memory_;
  }

 private:
  static constexpr size_t kMostAtOnce = 48;
  static constexpr int kMostCallsToFailure = 400;  // some requests make more

  struct Sent {
    int kind = 0;
    bool whole = true;     // nothing is done to it
    bool has_salt = true;  // its own, so that nothing of others may serve it
    Ticket ticket;
  };

  std::shared_ptr<const Model> load() const {
    auto model = load_model(asked_.folder, {.threads = 2, .memory_bytes = asked_.memory_bytes});
    if (!model) throw std::runtime_error(model.error().message);
    return std::move(*model);
  }

  int draw(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }

  void send(int kind) {
    Request request = request_of(kind);
    request.priority = draw(3);
    request.options.share = draw(4) > 0;
    const bool has_salt = draw(6) == 0;
    request.options.salt = has_salt ? std::to_string(++salts_) : draw(2) == 0 ? "" : "salt";
    bool whole = true;
    Callbacks callbacks;
    switch (draw(8)) {
      case 0:
        whole = false;
        request.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(draw(5000));
        break;
      case 1:
        whole = false;
        request.options.keep_going = [left = draw(40)]() mutable { return --left > 0; };
        break;
      case 2:
        whole = false;
        callbacks.on_text = [](int, std::string_view) -> bool { throw std::runtime_error("mine"); };
        break;
      default:
        break;
    }
    Session session = session_of(model_);
    if (asked_.failures != nullptr) {
      if (draw(3) == 0) asked_.failures->fail_after(draw(kMostCallsToFailure));
      asked_.failures->may_fail_here(true);
    }
    auto ticket = session.submit(std::move(request), std::move(callbacks));
    if (asked_.failures != nullptr) asked_.failures->may_fail_here(false);
    if (ticket)
      sent_.push_back({kind, whole, has_salt, std::move(*ticket)});
    else
      expect_out_of_memory(ticket.error());
  }

  void cancel_one() {
    if (sent_.empty()) return;
    Sent& one = sent_[static_cast<size_t>(draw(static_cast<int>(sent_.size())))];
    one.whole = false;
    one.ticket.cancel();
  }

  void check_one() {
    const auto one = sent_.begin() + draw(static_cast<int>(sent_.size()));
    check(*one);
    sent_.erase(one);
  }

  void check(const Sent& one) {
    SCOPED_TRACE("request " + std::to_string(one.kind));
    const Answer& alone = alone_.at(one.kind);
    try {
      const auto& answer = one.ticket.wait();
      if (!answer) return expect_out_of_memory(answer.error());
      expect_own_canary(answer->trace.prompt, one.kind);
      if (one.has_salt) {
        EXPECT_EQ(answer->trace.usage.kept_tokens, 0) << "it has others' tokens";
      }
      if (!one.whole) return expect_beginning(*answer, alone);
      expect_same_answer(*answer, alone, 0);
      ASSERT_EQ(answer->others.size(), alone.others.size());
      for (size_t i = 0; i < alone.others.size(); ++i)
        expect_same_answer(answer->others[i], alone.others[i], 0);
      EXPECT_EQ(answer->trace.prompt, alone.trace.prompt);
      EXPECT_EQ(answer->trace.prompt_ids, alone.trace.prompt_ids);
      ++answered_;
    } catch (const std::runtime_error&) {
      EXPECT_FALSE(one.whole);
    }
  }

  void expect_out_of_memory(const Error& error) {
    ++out_of_memory_;
    EXPECT_EQ(error.reason, Error::Reason::kMemory) << error.message;
  }

  // What it read before it ended holds its own canary and nobody else's.
  static void expect_own_canary(const std::string& prompt, int kind) {
    constexpr std::string_view kCanary = "canary";
    const std::string own = std::string(kCanary) + std::to_string(kind) + "?";
    for (size_t at = prompt.find(kCanary); at != std::string::npos;
         at = prompt.find(kCanary, at + 1))
      EXPECT_EQ(prompt.compare(at, own.size(), own), 0) << prompt;
  }

  static void expect_beginning(const Answer& answer, const Answer& alone) {
    EXPECT_TRUE(alone.text.starts_with(answer.text)) << answer.text;
    ASSERT_LE(answer.others.size(), alone.others.size());
    for (size_t i = 0; i < answer.others.size(); ++i)
      EXPECT_TRUE(alone.others[i].text.starts_with(answer.others[i].text)) << answer.others[i].text;
  }

  const Interleavings asked_;
  std::mt19937 random_{1};
  std::shared_ptr<const Model> model_;
  Canaries canaries_;
  std::vector<int> kinds_;       // of the requests, in their order
  std::map<int, Answer> alone_;  // of each kind, its answer without the others
  std::vector<Sent> sent_;
  int salts_ = 0;
  int answered_ = 0;
  int out_of_memory_ = 0;
};

inline void interleave(Interleavings asked) { Interleaver(std::move(asked)).run(); }

}  // namespace fovea::test
