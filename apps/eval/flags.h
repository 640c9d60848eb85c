// SPDX-License-Identifier: Apache-2.0
// The flags of fovea eval, and what they ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/threads.h"
#include "eval/questions.h"
#include "fovea/answer.h"
#include "fovea/command.h"

namespace fovea::eval {

struct EvalFlags {
  app::Common common;
  std::string model = "tiny";
  std::string weights;
  std::string kernels = "best";
  int64_t memory = 0;
  std::string data;
  std::string images;
  int64_t cards = 0;
  std::vector<std::string> families;
  std::vector<std::string> arms = {"uniform", "random", "coupling", "oracle"};
  std::vector<int> budgets = {64, 96, 144, 256};
  AskOptions ask;  // looks, sure, look, attention of both kinds, keep, forget, kv,
                   // max_tokens, allow_special
  int size_px = 1024;
  int card_count = 24;
  std::string payload = "10..13";
  std::string honesty = "off";
  std::string json;
  std::string plot;
  std::string plot_over = "tokens";
  std::string resume;
};

void add_eval_flags(CLI::App& command, EvalFlags& flags);

// What can be seen to be wrong before any work.
Status check_eval_flags(EvalFlags& flags);

Result<QuestionSet> questions_of(const EvalFlags& flags, Threads& threads);

// Everything that decides an answer, so that a resumed run is the same run. Arms and budgets stand
// with each answer.
Result<std::string> settings_json(const EvalFlags& flags, const std::string& model_folder,
                                  const QuestionSet& set);

}  // namespace fovea::eval
