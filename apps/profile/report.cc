// SPDX-License-Identifier: Apache-2.0
#include "profile/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"

namespace fovea::app {
namespace {

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string human_flop(int64_t flop) {
  if (flop == 0) return "";
  const auto value = static_cast<double>(flop);
  if (value >= 1e12) return fmt::format("{:.2f} T", value * 1e-12);
  return value >= 1e9 ? fmt::format("{:.1f} G", value * 1e-9)
                      : fmt::format("{:.1f} M", value * 1e-6);
}

std::string human_work(int64_t bytes) { return bytes == 0 ? "" : human_bytes(bytes); }

void print_header(const Profile& profile) {
  const DeviceCeilings& device = profile.ceilings.device;
  fmt::print("{}, {} as {}\n", profile.device, printable_line(profile.model, 200), profile.weights);
  fmt::print("ceilings: copy {:.1f} GB/s, read {:.1f} GB/s, {:.2f} TFLOP/s",
             device.copy_bytes_per_ms / 1e6, device.read_bytes_per_ms / 1e6,
             device.product_flop_per_ms / 1e9);
  if (device.upload_bytes_per_ms > 0)
    fmt::print(", upload {:.1f} GB/s", device.upload_bytes_per_ms / 1e6);
  const Look& look = profile.by_stage.answer.trace.looks.front();
  fmt::print("\n{}x{} px, {} of {} cells ({}), {} tokens of prompt, {} of answer\n",
             look.canvas.width_px, look.canvas.height_px, profile.request.cells,
             profile.dense_request.cells, look.plan.maker, profile.request.prompt_tokens,
             profile.request.answer_tokens);
}

void print_stages(const Profile& profile) {
  fmt::print("\n{:<10} {:>9} {:>10} {:>9} {:>9} {:>9}   {:>10} {:>9}\n", "", "ms", "bytes", "FLOP",
             "limit ms", "of limit", "dense", "FLOP");
  for (size_t i = 0; i < kStageCount; ++i) {
    const Work& work = profile.work[i];
    const Work& dense = profile.dense_work[i];
    const double ms = profile.by_stage.ms[i];
    if (ms == 0 && work.bytes() == 0 && dense.bytes() == 0) continue;
    const double limit = profile.limit_of(static_cast<Stage>(i));
    fmt::print("{:<10} {:>9.3f} {:>10} {:>9} ", kStageNames[i], ms, human_work(work.bytes()),
               human_flop(work.flop));
    if (limit > 0)
      fmt::print("{:>9.4f} {:>7.0f} %", limit, percent(limit, ms));
    else
      fmt::print("{:>9} {:>9}", "", "");
    fmt::print("   {:>10} {:>9}\n", human_work(dense.bytes()), human_flop(dense.flop));
  }
  const Work sum = sum_of(profile.work);
  const Work dense = sum_of(profile.dense_work);
  fmt::print("{:<10} {:>9.3f} {:>10} {:>9} {:>9} {:>9}   {:>10} {:>9}\n", "whole",
             profile.by_stage.whole_ms, human_work(sum.bytes()), human_flop(sum.flop), "", "",
             human_work(dense.bytes()), human_flop(dense.flop));
  fmt::print("\nof the dense path: {:.1f} % of the bytes, {:.1f} % of the arithmetic\n",
             percent(static_cast<double>(sum.bytes()), static_cast<double>(dense.bytes())),
             percent(static_cast<double>(sum.flop), static_cast<double>(dense.flop)));
}

void print_times(const Profile& profile) {
  const auto line = [](const char* name, const RequestRun& run) {
    fmt::print("{:<28} first token {:.3f} ms, whole {:.3f} ms\n", name, run.first_token_ms,
               run.whole_ms);
  };
  fmt::print("\n");
  line("the first request of all", profile.warm_up);
  line("warm", profile.whole);
  line("warm, waiting at each stage", profile.by_stage);
  const std::vector<AnswerToken>& tokens = profile.by_stage.answer.tokens;
  if (tokens.size() < 2) return;
  std::vector<double> ms;
  for (size_t i = 1; i < tokens.size(); ++i) ms.push_back(tokens[i].ms);
  std::sort(ms.begin(), ms.end());
  const double limit = limit_ms(profile.token_work, profile.ceilings.device);
  fmt::print("a token: median {:.3f} ms, {} to read, limit {:.3f} ms ({:.0f} % of it)\n",
             ms[ms.size() / 2], human_bytes(profile.token_work.read_bytes), limit,
             percent(limit, ms[ms.size() / 2]));
}

void print_verdicts(const char* stage, const Counters& foveated, const Counters& dense) {
  fmt::print("{:<10} {:>8} {:>9.3f} {:>10} {:>10}  ", stage, foveated.kernels, foveated.ns * 1e-6,
             human_work(static_cast<int64_t>(foveated.dram_bytes)),
             human_work(static_cast<int64_t>(dense.dram_bytes)));
  for (const Verdict& verdict : judge(foveated, dense))
    fmt::print(" {} {:.0f} % {}", verdict.name, 100 * verdict.value,
               verdict.pass() ? "pass" : "FAIL");
  fmt::print("\n");
}

}  // namespace

void print_measured(const Profile& profile) {
  print_header(profile);
  print_stages(profile);
  print_times(profile);
}

void print_counted(const Profile& profile) {
  if (!profile.counters || !profile.dense_counters) {
    if (!profile.counters_note.empty()) fmt::print("\n{}\n", profile.counters_note);
    return;
  }
  fmt::print("\n{:<10} {:>8} {:>9} {:>10} {:>10}   targets: below 50 %, above 80 %, above 90 %\n",
             "counted", "kernels", "ms", "DRAM", "dense");
  for (size_t i = 0; i < kStageCount; ++i)
    if (profile.counters->stages[i].kernels > 0)
      print_verdicts(kStageNames[i].data(), profile.counters->stages[i],
                     profile.dense_counters->stages[i]);
  print_verdicts("whole", profile.counters->total, profile.dense_counters->total);
}

}  // namespace fovea::app
