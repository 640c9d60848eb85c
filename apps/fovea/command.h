// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: the common flags, how errors leave the program, how values are read.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea::app {

inline constexpr int kGood = 0;
inline constexpr int kFailed = 1;
inline constexpr int kBadUsage = 2;

// Flags that mean the same everywhere.
struct Common {
  bool quiet = false;
  int threads = 0;  // 0: the cores this process may use
  std::string device = "cpu";
  uint64_t seed = 0;
};

void add_common(CLI::App& command, Common& common);
// For commands that run models.
void add_kernels(CLI::App& command, std::string& kernels);

// A check for options that take a whole number: plain decimal digits, nothing before or after.
CLI::Validator whole_number(uint64_t least, uint64_t most);

// For commands that run on the CPU alone: says so, or that the named device is not there.
Status check_cpu(const std::string& device);

// Prints "fovea: message" on stderr and returns the exit status of its kind.
int complain(const Error& error);

// Progress and notes go to stderr, and are silent with -q.
void note(const Common& common, const std::string& text);

// "x,y" -> Point; an Error names the text.
Result<Point> parse_point(const std::string& text);

// Writes text to a file, or to stdout for "-".
Status write_text(const std::string& path, const std::string& text);

// A subcommand adds itself to the program; `run` is called after parsing and gives the exit status.
using Run = std::function<int()>;
Run add_see(CLI::App& program);
Run add_ask(CLI::App& program);
Run add_chat(CLI::App& program);
Run add_info(CLI::App& program);
Run add_bench(CLI::App& program);
Run add_eval(CLI::App& program);
Run add_profile(CLI::App& program);
Run add_cards(CLI::App& program);
Run add_tokenize(CLI::App& program);

}  // namespace fovea::app
