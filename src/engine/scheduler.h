// SPDX-License-Identifier: Apache-2.0
// Runs all requests of a model, side by side, on a thread of its own.
#pragma once

#include <memory>
#include <thread>

#include "engine/request.h"

namespace fovea {

// Works by iterations. In each, all requests that are answering go on by one token, in one pass
// through the language model, and the first of those that are not goes on by one stage or one chunk
// of its prompt; on a GPU all of those do, sharing passes of the tower and of the language model.
// Requests start by priority, then in the order they came in, as soon as there is memory for all
// that they can need; who has to wait for that holds up those behind, so that a large one is not
// passed over for ever. A GPU makes room by itself, and refuses who does not fit.
class Scheduler {
 public:
  static constexpr int kMostActive = 64;

  Scheduler();
  // Nothing is active then: each request holds the model. Where the last one ends on the thread
  // itself, that thread ends by itself a moment later, and the program waits for it.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Where the system has no thread for them, requests run on the thread of the first who submits,
  // and are done when this returns there.
  Result<Ticket> submit(std::unique_ptr<ActiveRequest> request);

 private:
  class Loop;
  std::shared_ptr<Loop> loop_;
  std::thread thread_;  // from the first request on; guarded by the loop's mutex
};

}  // namespace fovea
