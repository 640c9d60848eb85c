// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu.h"

#include <cerrno>
#include <fstream>
#include <new>

#include "base/threads.h"
#include "hwy/targets.h"

namespace fovea {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  // Streams say by nothing else that there was no memory for them.
  if (info.bad() || (!info.is_open() && errno == ENOMEM)) throw std::bad_alloc();
  return "CPU";
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  // The lowest bit is the best target.
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1)
    names.emplace_back(hwy::TargetName(targets & -targets));
  return names;
}

std::string describe_cpu() {
  const int cores = usable_cores();
  std::string text = cpu_name() + ", " + std::to_string(cores) + (cores == 1 ? " core" : " cores");
  for (const std::string& name : simd_targets()) text += ", " + name;
  return text;
}

}  // namespace fovea
