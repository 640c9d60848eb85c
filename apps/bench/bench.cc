// SPDX-License-Identifier: Apache-2.0
// fovea bench: runs the *_bench.cc files of a suite; verifies, then times.
#include "bench/bench.h"

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
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["machine"] = {{"cpu", describe_cpu()}, {"threads", bench.threads.size()}};
  if (bench.description.empty())
    json["machine"]["copy_gb_per_s"] = bench.copy_bytes_per_ms() / 1e6;
  else
    json["machine"]["gpu"] = bench.description;
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
  if (bench.description.empty())
    fmt::print("{}, {} threads, copy {:.1f} GB/s\n\n", describe_cpu(), bench.threads.size(),
               bench.copy_bytes_per_ms() / 1e6);
  else
    fmt::print("{}\n\n", bench.description);
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
  std::string kernels = "best";
  std::string only;
  bool json = false;
  bool device_given = false;
};

bool takes_only(const std::string& suite) {
  return suite == "attention" || suite == "gpu" || suite == "requests" || suite == "serve";
}

// The suite gpu runs on a GPU, requests and serve on any device, all others on the CPU.
Result<std::string> device_of(const BenchFlags& flags) {
  const std::string& device = flags.common.device;
  if (flags.suite == "requests" || flags.suite == "serve") return device;
  if (flags.suite != "gpu") {
    const auto checked = check_cpu(device);
    if (!checked) return checked.error();
    return device;
  }
  if (flags.device_given && device == "cpu")
    return bad_input("bench gpu runs on a GPU; use --device cuda[:i]");
  return flags.device_given ? device : std::string("cuda");
}

// What went wrong, in one line; nothing where all went well.
std::string wrong_rows(const Bench& bench) {
  std::string text;
  if (!bench.unverified.empty()) text = "wrong results, so not timed:";
  for (const std::string& name : bench.unverified) text += " " + name;
  for (const std::string& why : bench.failed) text += (text.empty() ? "" : "; ") + why;
  return text;
}

int run(const BenchFlags& flags) {
  const Common& common = flags.common;
  if (!flags.only.empty() && !takes_only(flags.suite))
    return complain(
        bad_input("--only is for bench attention, bench gpu, bench requests and bench serve"));
  if ((flags.suite == "model" || flags.suite == "accuracy") && flags.model.empty())
    return complain(bad_input("bench " + flags.suite + " needs --model DIR, a checkpoint folder"));
  const auto device = device_of(flags);
  if (!device) return complain(device.error());
  std::vector<BenchEntry> entries;
  for (const BenchEntry& entry : bench_entries())
    if (entry.suite == flags.suite) entries.push_back(entry);
  std::sort(entries.begin(), entries.end(),
            [](const BenchEntry& a, const BenchEntry& b) { return std::string(a.name) < b.name; });

  Threads threads(common.threads > 0 ? common.threads : usable_cores());
  const bool show = !common.quiet && isatty(STDERR_FILENO) != 0;
  Bench bench(threads, [&](const std::string& name) {
    if (show) tell("\r\033[K{}", name);
  });
  bench.model = flags.model;
  bench.weights = flags.weights;
  bench.device = *device;
  bench.kernels = flags.kernels;
  bench.only = flags.only;
  for (const BenchEntry& entry : entries) entry.run(bench);
  if (show) tell("\r\033[K");

  if (bench.error) return complain(*bench.error);
  if (!flags.only.empty() && wrong_rows(bench).empty() &&
      std::none_of(bench.rows.begin(), bench.rows.end(),
                   [&](const BenchRow& row) { return bench.wants(row.name); }))
    return complain(bad_input("--only: bench " + flags.suite + " has no rows '" + flags.only +
                              "', or they need --model DIR"));
  if (flags.json)
    fmt::print("{}", json_of(bench));
  else
    print_table(bench);
  const std::string wrong = wrong_rows(bench);
  return wrong.empty() ? kGood : complain(failed(wrong));
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
  command->add_option(
      "-m,--model", flags->model,
      "The checkpoint folder of the suites accuracy, attention, gpu, model, requests and serve");
  command->add_option("--weights", flags->weights, "... kept as f32, bf16 or int8")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  command->add_option(
      "--only", flags->only,
      "Of attention, gpu, requests and serve the rows NAME and NAME/... alone, such as\n"
      "tower/16384/hierarchical or patches, with those that are measured with them");
  add_common(*command, flags->common);
  add_kernels(*command, flags->kernels);
  command->footer(
      "Examples:\n"
      "  fovea bench front-end\n"
      "  fovea bench front-end --threads 1 --json | jq .rows\n"
      "  fovea bench model --model DIR --weights int8\n"
      "  fovea bench attention --model DIR --only tower/16384\n"
      "  fovea bench gpu --model DIR --device cuda:1\n"
      "  fovea bench gpu --only patches\n"
      "  fovea bench requests --model DIR --device cuda\n"
      "  fovea bench serve --model DIR --device cuda\n"
      "bench/peers/*.py compare with OpenCV, torch, transformers and llama.cpp in the same run.");
  return [flags, command] {
    flags->device_given = command->count("--device") > 0;
    return run(*flags);
  };
}

}  // namespace fovea::app
