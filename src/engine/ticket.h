// SPDX-License-Identifier: Apache-2.0
// What a request and those who wait for it share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>

#include "fovea/request.h"

namespace fovea {

struct TicketState {
  std::atomic<bool> cancelled = false;
  std::atomic<RequestStage> stage = RequestStage::kWaiting;

  std::mutex mutex;
  std::condition_variable changed;       // once: it is done
  std::optional<Result<Answer>> answer;  // guarded by the mutex until then
  std::exception_ptr thrown;             // by a callback; likewise

  // Ends the request; noexcept, since nobody could be told.
  void finish(Result<Answer> result, std::exception_ptr by_callback) noexcept;
  // Waits, then throws what a callback threw. An error on a thread that runs callbacks.
  const Result<Answer>& wait();
};

// While one lives, its thread runs callbacks, and must not wait for a request.
class CallbackThread {
 public:
  CallbackThread();
  ~CallbackThread();
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  static bool is_this();
  static Error refusal();  // to wait

 private:
  bool before_;  // whether it ran them already
};

}  // namespace fovea
