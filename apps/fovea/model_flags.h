// SPDX-License-Identifier: Apache-2.0
// What `ask` and `chat` share: the flags of a model and an answer, loading with progress, Ctrl-C.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "fovea/answer_json.h"
#include "fovea/command.h"
#include "fovea/fovea.h"

namespace fovea::app {

struct ModelFlags {
  Common common;
  std::string model = "tiny";
  std::string weights;
  std::string kernels = "best";
  std::vector<std::string> plans;   // as given: a plan maker, or files that `see --json` wrote
  std::vector<std::string> biases;  // as given: ID:VALUE
  int64_t max_pixels = 0;
  int64_t memory = 0;
  bool stats = false;
  AskOptions options;
};

// Those that say how a model is loaded; and with them those of an answer.
void add_load_flags(CLI::App& command, ModelFlags& flags);
void add_model_flags(CLI::App& command, ModelFlags& flags);
// --attention and --attention-text.
void add_attention_flags(CLI::App& command, AskOptions& options);
// --keep and --forget.
void add_forget_flags(CLI::App& command, AskOptions& options);
// --kv.
void add_kv_flag(CLI::App& command, AskOptions& options);

// Puts what was given for so many images into options; an error names the flag.
Status read_model_flags(ModelFlags& flags, size_t images);

// Loads the model, with progress on a terminal. `load_ms` gets what it took.
Result<Engine> load_model(const ModelFlags& flags, double& load_ms);

// "x,y" for the first image, or "N:x,y" for the Nth, into the options.
Status add_fixation(AskOptions& options, const std::string& text, size_t images);

// Tokens, times and memory of an answer, for a person, on stderr.
void print_stats(const Answer& answer, double load_ms);

// While one lives, Ctrl-C asks for a clean stop instead of ending the program; the second one ends
// it.
class StopOnInterrupt {
 public:
  StopOnInterrupt();
  ~StopOnInterrupt();
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;
  static bool asked();
};

// Shows on a terminal how long an answer has been worked on, until its first text comes.
class Waiting {
 public:
  explicit Waiting(const Common& common);
  void tick();   // as often as one likes
  void clear();  // before anything else is written

 private:
  bool show_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t shown_s_ = 0;
};

inline constexpr int kInterrupted = 130;  // as shells have it: 128 + SIGINT

}  // namespace fovea::app
