// SPDX-License-Identifier: Apache-2.0
// Asks every question with every setting, then times some of them.
#pragma once

#include <functional>
#include <vector>

#include "base/threads.h"
#include "eval/arms.h"
#include "eval/questions.h"
#include "eval/records.h"
#include "fovea/fovea.h"

namespace fovea::eval {

struct Job {
  const QuestionSet* set = nullptr;
  std::vector<Setting> settings;
  AskOptions ask;          // what all answers share; arms add where to look
  int64_t min_pixels = 0;  // the model's lower limit of a canvas
  uint64_t seed = 0;
};

struct Watcher {
  std::function<void(size_t done, size_t total)> on_progress;  // from any thread, one at a time
  std::function<bool()> keep_going;                            // false: stop soon
};

// Asks what `records` do not hold yet, one picture for each of `askers` at a time, all of one
// model. The questions of a picture share a session in each setting, so that its glance is paid for
// once; the answers do not depend on how many threads ask, nor on the other settings. Gives false
// where it was stopped.
Result<bool> answer_all(Threads& askers, const Engine& engine, const Job& job, Records& records,
                        const Watcher& watcher);

// Times some questions of each family in every setting, each in a session of its own: nothing
// is kept from other questions.
Result<bool> time_some(const Engine& engine, const Job& job, Records& records,
                       const Watcher& watcher);

inline constexpr size_t kTimedQuestions = 8;  // in all; at least one of each family

}  // namespace fovea::eval
