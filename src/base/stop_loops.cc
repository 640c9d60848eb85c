// SPDX-License-Identifier: Apache-2.0
#include "base/stop_loops.h"

namespace fovea {
namespace {

thread_local StopLoops* innermost = nullptr;

}  // namespace

StopLoops::StopLoops(const std::function<bool()>& keep_going)
    : ask_(keep_going), outer_(innermost) {
  innermost = this;
}

StopLoops::~StopLoops() { innermost = outer_; }

bool StopLoops::keep_going() {
  if (stopped_ || !ask_) return !stopped_;
  stopped_ = !ask_();
  asked_ = std::chrono::steady_clock::now();  // after it, so that a slow answer is not asked again
  return !stopped_;
}

bool StopLoops::end_loop() {
  StopLoops* stop = innermost;
  if (stop == nullptr || !stop->ask_) return false;
  if (stop->stopped_ || std::chrono::steady_clock::now() - stop->asked_ < kAskEvery)
    return stop->stopped_;
  return !stop->keep_going();
}

}  // namespace fovea
