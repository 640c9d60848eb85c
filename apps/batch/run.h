// SPDX-License-Identifier: Apache-2.0
// Asks one question about many pictures, several at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "batch/answers.h"
#include "fovea/fovea.h"

namespace fovea::batch {

struct Job {
  std::vector<std::string> pictures;
  std::string question;
  AskOptions ask;
  int64_t max_pixels = 0;
  int at_once = 1;   // pictures that the engine has
  int decoders = 1;  // threads, each with a picture at most that the engine does not have yet
};

struct Watcher {
  std::function<void(size_t done, size_t total)> on_progress;
  std::function<bool()> keep_going;  // asked by several threads; false: stop soon
};

// What is wrong with the model, the question or its options, whatever the picture: it is asked once
// without any, so that no picture gets the blame in a line that stays.
Status check_job(const Engine& engine, const Job& job);

// Asks about the pictures that `answers` has no line of, and adds their lines in their order. What
// is wrong with a picture is its line; what is wrong with the machine (no more memory, weights that
// have changed) is an error, after which the same job can go on. Gives false where it was stopped.
Result<bool> answer_all(const Engine& engine, const Job& job, Answers& answers,
                        const Watcher& watcher);

}  // namespace fovea::batch
