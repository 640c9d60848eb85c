// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: the common flags, how errors leave the program, how values are read.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "fovea/new_file.h"
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
void add_memory(CLI::App& command, int64_t& bytes);

// A check for options that take a whole number: plain decimal digits, nothing before or after.
CLI::Validator whole_number(uint64_t least, uint64_t most);

// Positional arguments, each taken as it was typed: CLI11 would take "[a,b]" for two words.
CLI::Option* add_words(CLI::App& command, const std::string& name, std::vector<std::string>& words,
                       const std::string& help);

// A check for options that name a file or folder: an empty name is a variable that was not set.
CLI::Validator some_path();
// ... of a folder to write to, which stdout, "-", is not.
CLI::Validator folder_path();

// For commands that run on the CPU alone: says so, or that the named device is not there.
Status check_cpu(const std::string& device);

// Prints "fovea: message" on stderr and returns the exit status of its kind.
int complain(const Error& error);

// The same where memory has run out, without taking any; silent after another complaint.
int complain_of_memory();
// ... and ends the program at once, before any other thread can complain too.
[[noreturn]] void end_without_memory();

// Writes to stderr. That it could not is nothing anyone could be told.
void to_stderr(const std::string& text) noexcept;
template <class... Values>
void tell(fmt::format_string<Values...> format, Values&&... values) {
  to_stderr(fmt::format(format, std::forward<Values>(values)...));
}

// Progress and notes go to stderr, and are silent with -q.
void note(const Common& common, const std::string& text);

// Foreign text for a terminal: one printable line, as the message of an Error is.
std::string one_line(const std::string& text);

// "x,y" -> Point; an Error names the text.
Result<Point> parse_point(const std::string& text);

// Of what was written to stdout so far, has any been lost?
Status check_stdout();

// A flag that names a file to write.
struct Output {
  const char* flag;
  std::string* path;  // empty: not given
};
// Calls stdout "-" by whichever name it was given, and refuses two flags that name one file.
Status settle_outputs(std::initializer_list<Output> outputs);

// A subcommand adds itself to the program; `run` is called after parsing and gives the exit status.
using Run = std::function<int()>;
Run add_see(CLI::App& program);
Run add_ask(CLI::App& program);
Run add_chat(CLI::App& program);
Run add_batch(CLI::App& program);
Run add_info(CLI::App& program);
Run add_bench(CLI::App& program);
Run add_eval(CLI::App& program);
Run add_profile(CLI::App& program);
Run add_cards(CLI::App& program);
Run add_tokenize(CLI::App& program);
Run add_serve(CLI::App& program);
Run add_view(CLI::App& program);

}  // namespace fovea::app
