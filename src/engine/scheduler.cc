// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "language/device_decoder.h"

namespace fovea {

static_assert(Scheduler::kMostActive <= DeviceAnswers::kMostAnswers);

// What the thread works on. It may outlive the Scheduler by a moment, where the last request of a
// model that nobody else holds ends on it.
class Scheduler::Loop {
 public:
  using Requests = std::list<std::unique_ptr<ActiveRequest>>;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex:
  Requests submitted;
  bool stop = false;
  bool runs_here = false;  // on a caller's thread

  Loop() {
    chosen_.reserve(kMostActive);
    batch_.reserve(kMostActive);
    answering_.reserve(kMostActive);
  }

  // Takes no memory of its own: what requests need they ask for themselves.
  void run() {
    const CallbackThread callbacks;
    while (take_submitted(true)) work_once();
  }
  // The same on a caller's thread, where the system has none for it, until nothing is left.
  void run_here() {
    const CallbackThread callbacks;
    while (take_submitted(false)) work_once();
  }

 private:
  static bool is_done(const std::unique_ptr<ActiveRequest>& request) {
    return request->stage() == RequestStage::kDone;
  }

  // False where it is to stop, or where nothing is left and it is not to wait.
  bool take_submitted(bool wait) {
    std::unique_lock lock(mutex);
    if (wait && active_.empty() && waiting_.empty())
      changed.wait(lock, [this] { return stop || !submitted.empty(); });
    while (!submitted.empty()) {
      const int priority = submitted.front()->priority();
      const auto behind = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) {
        return other->priority() < priority;
      });
      waiting_.splice(behind, submitted, submitted.begin());
      may_start_ = true;
    }
    const bool nothing_left = active_.empty() && waiting_.empty();
    if (!wait && nothing_left) runs_here = false;
    return !stop && (wait || !nothing_left);
  }

  void work_once() {
    if (may_start_) admit();
    for (const auto& request : waiting_) request->end_if_stopped();
    may_start_ = std::erase_if(waiting_, is_done) > 0;
    iterate();
    may_start_ = std::erase_if(active_, is_done) > 0 || may_start_;
    for (const auto& request : active_) may_start_ = request->take_gave_room() || may_start_;
  }

  void admit() {
    auto next = waiting_.begin();
    while (next != waiting_.end() && active_.size() < kMostActive) {
      const auto request = next++;
      if (!(*request)->may_start()) continue;
      if (!(*request)->start(!active_.empty())) return;
      if (is_done(*request))
        waiting_.erase(request);
      else
        active_.splice(active_.end(), waiting_, request);
    }
  }

  void iterate() {
    draw();
    chosen_.clear();
    int reading = 0;
    for (const auto& request : active_) {
      const int most_reading = request->model().device->shares_passes() ? kMostActive : 1;
      if (request->stage() != RequestStage::kStep && reading++ >= most_reading) {
        request->end_if_stopped();
        continue;
      }
      if (request->forward() == nullptr) request->advance();
      if (request->forward() != nullptr) chosen_.push_back(request.get());
    }
    start_towers();
    if (chosen_.empty()) return;
    forward();
    for (ActiveRequest* request : chosen_) request->advance();
  }

  // Images whose requests have come to the tower in this iteration share a pass, where they can.
  void start_towers() {
    const auto going = std::find_if_not(active_.begin(), active_.end(), is_done);
    if (going != active_.end()) (*going)->model().front_end->start();
  }

  // Where a device makes answers by itself: a token of each.
  void draw() {
    answering_.clear();
    for (const auto& request : active_)
      if (DeviceAnswer* answer = request->answering()) answering_.push_back(answer);
    if (answering_.size() > 1) active_.front()->model().decoder.draw(answering_);
  }

  void forward() {
    batch_.clear();
    for (const ActiveRequest* request : chosen_) batch_.push_back(std::move(*request->forward()));
    const Model& model = chosen_.front()->model();
    try {
      model.decoder.work(*model.threads, batch_);
    } catch (...) {  // nothing but memory that ran out is thrown there
      for (ForwardRequest& request : batch_) {
        request.status = out_of_memory();
        request.memory->truncate(request.tokens_before);
      }
    }
    for (size_t i = 0; i < chosen_.size(); ++i) *chosen_[i]->forward() = std::move(batch_[i]);
  }

  Requests waiting_;       // in the order they are to start
  Requests active_;        // in the order they started
  bool may_start_ = true;  // some of those that wait: one came, or one ended
  std::vector<ActiveRequest*> chosen_;
  std::vector<ForwardRequest> batch_;
  std::vector<DeviceAnswer*> answering_;
};

namespace {

// A thread on which its own Scheduler was destroyed. It ends by itself in a moment; it is waited
// for before the next one is left here and before the program ends, so that it loses nothing.
class EndingThread {
 public:
  ~EndingThread() {
    if (thread_.joinable()) thread_.join();
  }

  void leave(std::thread thread) {
    {
      const std::lock_guard lock(mutex_);
      std::swap(thread_, thread);
    }
    if (thread.joinable()) thread.join();
  }

 private:
  std::mutex mutex_;
  std::thread thread_;
};

EndingThread& ending_thread() {
  static EndingThread one;  // made late, so destroyed before what the thread uses
  return one;
}

}  // namespace

Scheduler::Scheduler() : loop_(std::make_shared<Loop>()) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(loop_->mutex);
    loop_->stop = true;
  }
  loop_->changed.notify_all();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id())
    ending_thread().leave(std::move(thread_));
  else
    thread_.join();
}

Result<Ticket> Scheduler::submit(std::unique_ptr<ActiveRequest> request) {
  Ticket ticket(request->ticket());
  Loop::Requests one;
  one.push_back(std::move(request));
  // It may hold the last of a model whose Scheduler this is.
  const std::shared_ptr<Loop> loop = loop_;
  bool run_it = false;
  {
    const std::lock_guard lock(loop->mutex);
    if (!thread_.joinable() && !loop->runs_here) {
      try {
        thread_ = std::thread([loop] { loop->run(); });
      } catch (const std::system_error&) {
        loop->runs_here = run_it = true;
      }
    }
    loop->submitted.splice(loop->submitted.end(), one);
  }
  loop->changed.notify_all();
  if (run_it) loop->run_here();
  return ticket;
}

}  // namespace fovea
