// SPDX-License-Identifier: Apache-2.0
// fovea bench: runs the *_bench.cc files of a suite; verifies, then times.
#include "base/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "device/cpu/cpu.h"
#include "fovea/command.h"

namespace fovea::app {
namespace {

std::vector<std::string> suite_names() {
  std::set<std::string> names;
  for (const BenchEntry& entry : bench_entries()) names.insert(entry.suite);
  return {names.begin(), names.end()};
}

std::string json_of(Bench& bench) {
  nlohmann::ordered_json json;
  json["machine"] = {{"cpu", describe_cpu()},
                     {"threads", bench.threads.size()},
                     {"copy_gb_per_s", bench.copy_bytes_per_ms() / 1e6}};
  json["rows"] = nlohmann::json::array();
  for (const BenchRow& row : bench.rows) {
    nlohmann::ordered_json out{{"name", row.name}, {"value", row.value}, {"unit", row.unit}};
    if (row.limit) out["limit"] = *row.limit;
    if (!row.note.empty()) out["note"] = row.note;
    out["verified"] = true;
    json["rows"].push_back(out);
  }
  return json.dump() + "\n";
}

void print_table(Bench& bench) {
  fmt::print("{}, {} threads, copy {:.1f} GB/s\n\n", describe_cpu(), bench.threads.size(),
             bench.copy_bytes_per_ms() / 1e6);
  fmt::print("{:<44} {:>10} {:<4} {:>10} {:>9}\n", "", "measured", "", "limit", "of limit");
  for (const BenchRow& row : bench.rows) {
    fmt::print("{:<44} {:>10.3f} {:<4} ", row.name, row.value, row.unit);
    if (row.limit) fmt::print("{:>10.3f} {:>7.0f} %", *row.limit, 100 * *row.limit / row.value);
    fmt::print("{}{}\n", row.note.empty() ? "" : "  ", row.note);
  }
}

int run(const std::string& suite, const Common& common, bool json) {
  const auto device = check_device(common.device);
  if (!device) return complain(device.error());
  std::vector<BenchEntry> entries;
  for (const BenchEntry& entry : bench_entries())
    if (entry.suite == suite) entries.push_back(entry);
  std::sort(entries.begin(), entries.end(),
            [](const BenchEntry& a, const BenchEntry& b) { return std::string(a.name) < b.name; });

  Threads threads(common.threads > 0 ? common.threads : usable_cores());
  const bool show = !common.quiet && isatty(STDERR_FILENO) != 0;
  Bench bench(threads, [&](const std::string& name) {
    if (show) fmt::print(stderr, "\r\033[K{}", name);
  });
  for (const BenchEntry& entry : entries) entry.run(bench);
  if (show) fmt::print(stderr, "\r\033[K");

  if (json)
    fmt::print("{}", json_of(bench));
  else
    print_table(bench);
  if (bench.unverified.empty()) return kGood;
  std::string names;
  for (const std::string& name : bench.unverified) names += " " + name;
  return complain(failed("wrong results, so not timed:" + names));
}

}  // namespace

Run add_bench(CLI::App& program) {
  auto common = std::make_shared<Common>();
  auto suite = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      program.add_subcommand("bench", "Verify and time the engine's parts on this machine");
  command->add_option("suite", *suite, "What to time")
      ->required()
      ->check(CLI::IsMember(suite_names()));
  command->add_flag("--json", *json, "Print one JSON object");
  add_common(*command, *common);
  command->footer(
      "Examples:\n"
      "  fovea bench front-end\n"
      "  fovea bench front-end --threads 1 --json | jq .rows\n"
      "bench/peers/run.py compares with OpenCV, torch and transformers in the same run.");
  return [=] { return run(*suite, *common, *json); };
}

}  // namespace fovea::app
