// SPDX-License-Identifier: Apache-2.0
// A request on its way, between the engine's thread and Python's.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/fovea.h"
#include "lock.h"
#include "options.h"

namespace fovea::python {

// What the engine's thread leaves for Python's threads. No call waits for Python's lock while it
// holds the mutex, so that those who have the lock may take the mutex.
class Feed {
 public:
  ~Feed();
  Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // By the engine's thread.
  void push(std::string_view piece);
  void finish();
  void keep_logits(std::span<const float> logits);
  // What a callable of the caller's raised; with Python's lock.
  void keep_raised(nanobind::object raised);

  // The next piece, waited for so long; nothing: none came. `ended` says that none will.
  std::optional<std::string> take(std::chrono::milliseconds wait, bool& ended);
  // Has `wake` called once there is a piece or the end, on another thread. False: there is
  // something already. With Python's lock.
  bool arm(nanobind::object wake);

  nanobind::object raised() const { return raised_; }  // with Python's lock, after the end
  std::vector<float> take_logits() { return std::move(logits_); }

 private:
  void wake();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  bool ended_ = false;
  std::vector<nanobind::object> wakes_;

  std::vector<float> logits_;  // until the end the engine's thread has them for itself
  nanobind::object raised_;
};

// What is to become of a request.
struct AskedFor {
  bool stream = false;  // its text is asked for in pieces
  bool keep = false;    // it goes on where its Request is dropped
};

// fovea._fovea.Request: a submitted question.
class AskedRequest {
 public:
  AskedRequest(Ticket ticket, std::shared_ptr<Feed> feed, bool keep);

  const Ticket& ticket() const { return ticket_; }

  void cancel() { ticket_.cancel(); }
  std::string stage() const { return stage_name(ticket_.stage()); }
  bool done() const { return ticket_.done(); }
  // Whether it is done within so many seconds; below 0: however long it takes. Ctrl-C raises.
  bool wait(double seconds) const;
  // Until it is done, whatever comes.
  void wait_out() const;
  // The next piece of text, or None at the end.
  nanobind::object next() const;
  // The same without waiting: False where there is none yet.
  nanobind::object next_now() const;
  bool arm(nanobind::object wake) const { return feed_->arm(std::move(wake)); }
  // The fovea.Answer of a request that is done; its error is raised.
  nanobind::object answer() const;
  // The same of one that is waited for; what is raised meanwhile, by Ctrl-C say, ends it.
  nanobind::object wait_for_answer() const;

 private:
  Ticket ticket_;
  std::shared_ptr<Feed> feed_;
  std::shared_ptr<void> dropped_;  // cancels it with the last copy; null: it goes on
};

// Puts a question to a session. Without Python's lock.
Result<AskedRequest> submit(Session& session, std::vector<Message> messages, AskKeywords keywords,
                            AskedFor asked_for);

// Raises where this thread runs a callable of the caller's for the engine: it must not wait.
void refuse_to_wait_in_callback();

void add_request(nanobind::module_& module);

}  // namespace fovea::python
