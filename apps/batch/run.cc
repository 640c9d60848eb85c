// SPDX-License-Identifier: Apache-2.0
#include "batch/run.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "batch/decoders.h"

namespace fovea::batch {
namespace {

// Lines behind one that is not there yet. They are short; what they were made of is not kept.
constexpr size_t kMostWaiting = 256;

// Rung by other threads where there is something to do.
class Bell {
 public:
  void ring() {
    const std::scoped_lock lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  // Not for long: an interrupt does not ring.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;  // guarded by mutex_
};

// Whether the picture is not to blame: it may be answered another time, so it gets no line.
bool is_the_machines(const Error& error) {
  return error.reason == Error::Reason::kMemory ||
         (error.kind == Error::Kind::kFailed && error.reason == Error::Reason::kOther);
}

Request request_of(const Job& job, std::optional<Image> image) {
  Request request;
  Message message;
  if (image) message.parts.push_back({0, ""});
  message.parts.push_back({-1, job.question});
  request.messages.push_back(std::move(message));
  if (image) request.images.push_back(std::move(*image));
  request.max_pixels = job.max_pixels;
  request.options = job.ask;
  // Pictures have nothing in common: what is kept for others would fill the memory for nothing.
  request.options.share = false;
  return request;
}

class Batch {
 public:
  Batch(const Engine& engine, const Job& job, Answers& answers, const Watcher& watcher)
      : engine_(engine),
        job_(job),
        answers_(answers),
        watcher_(watcher),
        next_(answers.tally().pictures),
        decoders_(job.pictures, next_, job.decoders, job.max_pixels, [this] { bell_.ring(); }) {}

  // Requests hold the bell and the watcher.
  ~Batch() {
    for (Asked& asked : asked_)
      if (asked.ticket) asked.ticket->cancel();
    for (Asked& asked : asked_)
      while (asked.ticket && !asked.ticket->wait_for(std::chrono::seconds(1))) continue;
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  Result<bool> run() {
    for (;;) {
      watcher_.on_progress(answers_.tally().pictures, job_.pictures.size());
      if (answers_.tally().pictures == job_.pictures.size()) return true;
      if (auto collected = collect(); !collected) {
        if (!watcher_.keep_going()) return false;  // it may say no more than that it was stopped
        return collected.error();
      }
      if (auto written = write(); !written) return written.error();
      if (!watcher_.keep_going()) return false;
      if (auto submitted = submit(); !submitted) return submitted.error();
      bell_.wait();
    }
  }

 private:
  // A picture that has no line in the file: its ticket, then its line.
  struct Asked {
    size_t number = 0;
    std::optional<Ticket> ticket;
    std::optional<Line> line;
  };

  Status submit() {
    while (at_work_ < job_.at_once && asked_.size() < kMostWaiting) {
      auto image = decoders_.take();
      if (!image) return Done{};
      Asked& asked = asked_.emplace_back();
      asked.number = next_++;
      if (!*image) {
        if (image->error().reason == Error::Reason::kMemory) return about(asked, image->error());
        asked.line = line_of(job_.pictures[asked.number], image->error());
        bell_.ring();
        continue;
      }
      Request request = request_of(job_, std::move(**image));
      request.options.keep_going = [this] { return watcher_.keep_going(); };
      Callbacks callbacks;
      callbacks.on_done = [this](const Result<Answer>&) { bell_.ring(); };
      auto ticket = engine_.submit(std::move(request), std::move(callbacks));
      if (ticket) {
        asked.ticket = std::move(*ticket);
        ++at_work_;
      } else if (auto settled = settle(asked, ticket.error()); !settled) {
        return settled;
      }
    }
    return Done{};
  }

  Status collect() {
    for (Asked& asked : asked_) {
      if (!asked.ticket || !asked.ticket->done()) continue;
      const Result<Answer>& answer = asked.ticket->wait();
      if (!answer) {
        if (auto settled = settle(asked, answer.error()); !settled) return settled;
      } else if (answer->finish != "cancelled") {
        asked.line = line_of(job_.pictures[asked.number], *answer);
      } else {
        continue;  // it was stopped, and the run is
      }
      asked.ticket.reset();
      --at_work_;
    }
    return Done{};
  }

  Status write() {
    while (!asked_.empty() && asked_.front().line) {
      if (auto added = answers_.add(*asked_.front().line); !added) return added;
      asked_.pop_front();
    }
    return Done{};
  }

  Status settle(Asked& asked, const Error& error) {
    if (is_the_machines(error)) return about(asked, error);
    asked.line = line_of(job_.pictures[asked.number], error);
    bell_.ring();
    return Done{};
  }

  Error about(const Asked& asked, const Error& error) const {
    return {error.kind, fmt::format("{}: {}", job_.pictures[asked.number], error.message)};
  }

  const Engine& engine_;
  const Job& job_;
  Answers& answers_;
  const Watcher& watcher_;
  Bell bell_;
  size_t next_;              // the picture that is taken next
  std::deque<Asked> asked_;  // from the first without a written line up to next_
  int at_work_ = 0;          // of those, in the engine
  Decoders decoders_;        // last: its threads ring the bell
};

}  // namespace

Status check_job(const Engine& engine, const Job& job) {
  Request request = request_of(job, std::nullopt);
  request.options.max_tokens = 1;
  request.options.least_tokens = 0;
  const auto ticket = engine.submit(std::move(request));
  if (!ticket) return ticket.error();
  const Result<Answer>& answer = ticket->wait();
  if (!answer) return answer.error();
  return Done{};
}

Result<bool> answer_all(const Engine& engine, const Job& job, Answers& answers,
                        const Watcher& watcher) {
  return Batch(engine, job, answers, watcher).run();
}

}  // namespace fovea::batch
