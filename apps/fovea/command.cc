// SPDX-License-Identifier: Apache-2.0
#include "fovea/command.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

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

int complain(const Error& error) {
  std::string line = error.message;
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  fmt::print(stderr, "fovea: {}\n", line);
  return error.kind == Error::Kind::kBadInput ? kBadUsage : kFailed;
}

void note(const Common& common, const std::string& text) {
  if (!common.quiet) fmt::print(stderr, "{}\n", text);
}

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

Status write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return std::cout ? Status(Done{}) : Status(failed("cannot write to stdout"));
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    return bad_input(fmt::format("cannot write {}: is its folder there and writable?", path));
  return Done{};
}

}  // namespace fovea::app
