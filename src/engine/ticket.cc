// SPDX-License-Identifier: Apache-2.0
#include "engine/ticket.h"

#include <utility>

namespace fovea {
namespace {

thread_local bool runs_callbacks = false;

}  // namespace

CallbackThread::CallbackThread() : before_(runs_callbacks) { runs_callbacks = true; }
CallbackThread::~CallbackThread() { runs_callbacks = before_; }
bool CallbackThread::is_this() { return runs_callbacks; }
Error CallbackThread::refusal() {
  return bad_input(
      "a callback waits for a request, which may wait for it; submit it and let it go on");
}

void TicketState::finish(Result<Answer> result, std::exception_ptr by_callback) noexcept {
  const std::lock_guard lock(mutex);
  answer.emplace(std::move(result));
  thrown = std::move(by_callback);
  stage = RequestStage::kDone;
  changed.notify_all();
}

const Result<Answer>& TicketState::wait() {
  std::unique_lock lock(mutex);
  if (runs_callbacks && !answer) {
    static const Result<Answer> refused = CallbackThread::refusal();
    return refused;
  }
  changed.wait(lock, [this] { return answer.has_value(); });
  if (thrown) std::rethrow_exception(thrown);
  return *answer;
}

const char* stage_name(RequestStage stage) {
  switch (stage) {
    case RequestStage::kWaiting:
      return "waiting";
    case RequestStage::kGlance:
      return "glance";
    case RequestStage::kCouple:
      return "couple";
    case RequestStage::kLook:
      return "look";
    case RequestStage::kPrefill:
      return "prefill";
    case RequestStage::kStep:
      return "step";
    case RequestStage::kDone:
      return "done";
  }
  return "";
}

void Ticket::cancel() { state_->cancelled = true; }
RequestStage Ticket::stage() const { return state_->stage; }
const Result<Answer>& Ticket::wait() const { return state_->wait(); }

bool Ticket::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, time, [this] { return state_->answer.has_value(); });
}

}  // namespace fovea
