// SPDX-License-Identifier: Apache-2.0
// The flags of fovea batch, and what they ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "batch/run.h"
#include "fovea/model_flags.h"

namespace fovea::batch {

struct BatchFlags : app::ModelFlags {
  std::vector<std::string> words;  // pictures and folders
  std::string question;
  std::string output;
  int at_once = 0;  // 0: as many as suit the device
};

void add_batch_flags(CLI::App& command, BatchFlags& flags);

// The pictures, the question and how to answer it, or what can be seen to be wrong before any work.
Result<Job> job_of(BatchFlags& flags);

// Everything that decides an answer, so that a run that goes on is the same run. The pictures stand
// with their lines.
Result<std::string> settings_json(const BatchFlags& flags, const Job& job);

}  // namespace fovea::batch
