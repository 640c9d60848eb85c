// SPDX-License-Identifier: Apache-2.0
// Long work that can be stopped in the middle of a loop: a layer may take minutes, and Ctrl-C
// should not.
#pragma once

#include <chrono>
#include <functional>

namespace fovea {

// While one lives, the loops of Threads that its thread starts end early once `keep_going` says
// no, and so do all that follow. What such a loop was to write is not written: after the work, ask
// stopped() before its result is used. `keep_going` is called on this thread alone, between pieces
// of a loop, where it was not for kAskEvery; empty: nothing is stopped.
class StopLoops {
 public:
  static constexpr std::chrono::milliseconds kAskEvery{100};

  explicit StopLoops(const std::function<bool()>& keep_going);
  explicit StopLoops(std::function<bool()>&&) = delete;  // it must outlive this
  ~StopLoops();
  StopLoops(const StopLoops&) = delete;
  StopLoops& operator=(const StopLoops&) = delete;

  // Asks now, unless the answer was no already.
  bool keep_going();
  bool stopped() const { return stopped_; }

  // For Threads: whether a loop that this thread runs is to end.
  static bool end_loop();

 private:
  const std::function<bool()>& ask_;
  StopLoops* outer_;  // of the same thread
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
  bool stopped_ = false;
};

}  // namespace fovea
