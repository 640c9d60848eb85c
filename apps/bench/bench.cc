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
  fmt::print("{:<44} {:>10} {:<8} {:>10} {:>9}\n", "", "measured", "", "limit", "of limit");
  for (const BenchRow& row : bench.rows) {
    fmt::print("{:<44} {:>10.5g} {:<8} ", row.name, row.value, row.unit);
    if (row.limit) fmt::print("{:>10.5g} {:>7.0f} %", *row.limit, 100 * *row.limit / row.value);
    fmt::print("{}{}\n", row.note.empty() ? "" : "  ", row.note);
  }
}

struct BenchFlags {
  Common common;
  std::string suite;
  std::string model;
  std::string weights;
  bool json = false;
};

int run(const BenchFlags& flags) {
  const Common& common = flags.common;
  if ((flags.suite == "model" || flags.suite == "accuracy") && flags.model.empty())
    return complain(bad_input("bench " + flags.suite + " needs --model DIR, a checkpoint folder"));
  const auto device = check_cpu(common.device);
  if (!device) return complain(device.error());
  std::vector<BenchEntry> entries;
  for (const BenchEntry& entry : bench_entries())
    if (entry.suite == flags.suite) entries.push_back(entry);
  std::sort(entries.begin(), entries.end(),
            [](const BenchEntry& a, const BenchEntry& b) { return std::string(a.name) < b.name; });

  Threads threads(common.threads > 0 ? common.threads : usable_cores());
  const bool show = !common.quiet && isatty(STDERR_FILENO) != 0;
  Bench bench(threads, [&](const std::string& name) {
    if (show) fmt::print(stderr, "\r\033[K{}", name);
  });
  bench.model = flags.model;
  bench.weights = flags.weights;
  for (const BenchEntry& entry : entries) entry.run(bench);
  if (show) fmt::print(stderr, "\r\033[K");

  if (bench.error) return complain(*bench.error);
  if (flags.json)
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
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      program.add_subcommand("bench", "Verify and time the engine's parts on this machine");
  command->add_option("suite", flags->suite, "What to time")
      ->required()
      ->check(CLI::IsMember(suite_names()));
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_option("-m,--model", flags->model, "The checkpoint folder of the suite model");
  command->add_option("--weights", flags->weights, "... kept as f32, bf16 or int8")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  add_common(*command, flags->common);
  command->footer(
      "Examples:\n"
      "  fovea bench front-end\n"
      "  fovea bench front-end --threads 1 --json | jq .rows\n"
      "  fovea bench model --model DIR --weights int8\n"
      "bench/peers/*.py compare with OpenCV, torch, transformers and llama.cpp in the same run.");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
