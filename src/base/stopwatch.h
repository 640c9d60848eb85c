// SPDX-License-Identifier: Apache-2.0
// Splits the time of a run into named stages.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/words.h"

namespace fovea {

class Stopwatch {
 public:
  // Called where a stage ends, before its time is taken.
  using BeforeLap = std::function<void(const std::string& stage)>;

  Stopwatch() = default;
  explicit Stopwatch(BeforeLap before_lap) : before_lap_(std::move(before_lap)) {}

  // Ends a stage: the time since the last lap, or since the start, is its own.
  void lap(std::string stage) {
    if (before_lap_) before_lap_(stage);
    const auto now = Clock::now();
    laps_.push_back(
        {std::move(stage), std::chrono::duration<double, std::milli>(now - last_).count()});
    last_ = now;
  }

  // What passed since the last lap belongs to no stage.
  void skip() { last_ = Clock::now(); }

  const std::vector<StageTime>& laps() const { return laps_; }
  double total_ms() const {
    double total = 0;
    for (const StageTime& lap : laps_) total += lap.ms;
    return total;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  std::vector<StageTime> laps_;
  BeforeLap before_lap_;
};

}  // namespace fovea
