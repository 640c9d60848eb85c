// SPDX-License-Identifier: Apache-2.0
#include "fovea/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <system_error>

#include "fovea/fovea.h"

namespace fovea::app {

void add_common(CLI::App& command, Common& common) {
  command.add_flag("-q,--quiet", common.quiet, "No progress and no notes on stderr");
  command
      .add_option("--threads", common.threads, "Threads (default: the cores this process may use)")
      ->check(whole_number(1, 1024));
  command.add_option("--device", common.device, "cpu, cuda[:i] or vulkan[:i]")
      ->capture_default_str();
  command.add_option("--seed", common.seed, "Seed of everything random")
      ->capture_default_str()
      ->check(whole_number(0, UINT64_MAX));
}

void add_kernels(CLI::App& command, std::string& kernels) {
  command
      .add_option("--kernels", kernels,
                  "On a GPU: best, or portable (those that every GPU of its kind can run)")
      ->capture_default_str()
      ->check(CLI::IsMember({"best", "portable"}));
}

void add_memory(CLI::App& command, int64_t& bytes) {
  command
      .add_option("--memory", bytes,
                  "On the CPU: the most bytes that keys and values may take (default: half of what "
                  "is free)")
      ->check(whole_number(1, uint64_t{1} << 60));
}

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  const auto check = [=](const std::string& text) -> std::string {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stopped == end && value >= least && value <= most) return "";
    return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
  };
  return {check, fmt::format("{}..{}", least, most)};
}

CLI::Option* add_words(CLI::App& command, const std::string& name, std::vector<std::string>& words,
                       const std::string& help) {
  // Only an option that allows extra arguments has its brackets read. One that still expects more
  // takes every word there is, and does not mind to get fewer.
  constexpr int kMany = CLI::detail::expected_max_vector_size;
  return command.add_option(name, words, help)
      ->expected(kMany, kMany)
      ->take_all()
      ->allow_extra_args(false);
}

CLI::Validator some_path() {
  const auto check = [](const std::string& path) -> std::string {
    return path.empty() ? "the path is empty" : "";
  };
  return {check, ""};
}

CLI::Validator folder_path() {
  const auto check = [](const std::string& path) -> std::string {
    if (path.empty()) return "the path is empty";
    return path == "-" ? "- is stdout, and this is a folder; give its name, or ./-" : "";
  };
  return {check, ""};
}

Status check_cpu(const std::string& device) {
  if (device == "cpu") return Done{};
  const std::string numbered = device.find(':') == std::string::npos ? device + ":0" : device;
  std::string known;
  for (const Device& found : devices()) {
    if (found.name == numbered)
      return bad_input(
          fmt::format("--device {}: this command runs on the CPU; use --device cpu", device));
    known += (known.empty() ? "" : ", ") + found.name;
  }
  return bad_input(fmt::format("--device {}: no such device here; there is {}", device, known));
}

namespace {

// Threads run out of memory together: who writes a line holds this, and who ends the program keeps
// it.
std::mutex complaining;
bool has_complained = false;  // guarded by it

// By functions that take no memory, since there may be none left. The lock is held.
void write_complaint(const char* message) {
  has_complained = true;
  std::fprintf(stderr, "fovea: %s\n", message);
}

void write_complaint_of_memory() {
  if (!has_complained) write_complaint("out of memory; try a smaller image, or fewer threads");
}

}  // namespace

int complain(const Error& error) {
  const std::lock_guard lock(complaining);
  write_complaint(error.message.c_str());
  return error.kind == Error::Kind::kBadInput ? kBadUsage : kFailed;
}

int complain_of_memory() {
  const std::lock_guard lock(complaining);
  write_complaint_of_memory();
  return kFailed;
}

void end_without_memory() {
  complaining.lock();
  write_complaint_of_memory();
  std::_Exit(kFailed);
}

void to_stderr(const std::string& text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void note(const Common& common, const std::string& text) {
  if (!common.quiet) to_stderr(one_line(text) + "\n");
}

std::string one_line(const std::string& text) { return failed(text).message; }

Result<Point> parse_point(const std::string& text) {
  const auto number = [](const std::string& digits, double& value) {
    char* end = nullptr;
    value = std::strtod(digits.c_str(), &end);
    return !digits.empty() && *end == '\0' && std::isfinite(value);
  };
  const size_t comma = text.find(',');
  Point point;
  if (comma == std::string::npos || !number(text.substr(0, comma), point.x_px) ||
      !number(text.substr(comma + 1), point.y_px))
    return bad_input(
        fmt::format("--fixation '{}': give x,y in pixels of the image, such as 320,240", text));
  return point;
}

Status check_stdout() {
  errno = 0;
  std::cout.flush();
  // A network's file system may say only at a close that there was no room.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout;
  const int copy = written ? ::dup(STDOUT_FILENO) : -1;
  if (written && (copy < 0 || ::close(copy) == 0)) return Done{};
  const std::string reason = errno != 0 ? std::generic_category().message(errno) : "it was cut off";
  return failed("cannot write to stdout: " + reason);
}

Status settle_outputs(std::initializer_list<Output> outputs) {
  namespace fs = std::filesystem;
  std::map<fs::path, const char*> named;
  for (const Output& output : outputs) {
    std::string& path = *output.path;
    for (const char* name : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
      if (path == name) path = "-";
    if (path.empty() || path == "-") continue;
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) continue;  // /dev/null
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
    const auto [there, is_new] = named.emplace(error ? fs::path(path) : whole, output.flag);
    if (!is_new)
      return bad_input(fmt::format("{} and {} both name {}; give each a file of its own",
                                   there->second, output.flag, path));
  }
  return Done{};
}

}  // namespace fovea::app
