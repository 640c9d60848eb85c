// SPDX-License-Identifier: Apache-2.0
// A GPU's kernels against its ceilings, and a model on it: `fovea bench gpu [--model DIR]`.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/bench.h"
#include "bench/gpu_model_bench.h"
#include "bench/gpu_rows.h"
#include "bench/model_bench.h"

namespace fovea {
namespace {

// What an emulation can do in a test's time.
struct AskSizes {
  Size picture{1024, 1024};
  int budget_tokens = kSmallBudget;
  int calls = 12;
};

AskSizes sizes_for(const std::string& description) {
  if (description.find("emulated") == std::string::npos) return {};
  return {.picture = {96, 64}, .budget_tokens = 6, .calls = 1};
}

// From a picture in the host's memory to the first token of an answer: the median of sessions that
// have not seen it.
void first_token(Bench& bench, const std::shared_ptr<const Model>& model, const std::string& name,
                 const AskOptions& options, double wanted_ms) {
  if (!bench.wants(name)) return;
  const AskSizes sizes = sizes_for(bench.description);
  if (bench.progress) bench.progress(name);
  const std::string question = sizes.calls == 1 ? "What?" : long_question(model, options);
  const Image picture = random_picture(sizes.picture);
  const int64_t cells = grid_at(sizes.picture, 0).cells();
  std::vector<double> times;
  Answer last;
  for (int call = 0; call < sizes.calls; ++call) {
    Image copy = picture;
    Result<Answer> answer = failed("");
    std::optional<Session> session;  // taken down after the clock has stopped
    const double ms = ms_of([&] {
      session.emplace(session_of(model));
      if (auto added = session->add(std::move(copy)); !added)
        answer = added.error();
      else
        answer = session->ask(question, options);
    });
    if (!answer) {
      bench.failed.push_back(name + ": " + answer.error().message);
      return;
    }
    last = std::move(*answer);
    if (call >= 3 || sizes.calls == 1) times.push_back(ms);  // the first ones record graphs
  }
  std::sort(times.begin(), times.end());
  const Usage& usage = last.trace.usage;
  const bool verified = options.budget_tokens > 0
                            ? usage.image_tokens <= options.budget_tokens && usage.image_tokens > 0
                            : usage.image_tokens == cells;
  std::string stages;
  for (const StageTime& time : last.trace.times)
    stages += fmt::format("{}{} {:.2f}", stages.empty() ? "" : ", ", time.stage, time.ms);
  bench.add(verified, {name,
                       times[times.size() / 2],
                       "ms",
                       {},
                       fmt::format("{} + {} tokens; wanted <= {} ms; {}", usage.image_tokens,
                                   usage.text_tokens, wanted_ms, stages)});
}

void bench_gpu_model(Bench& bench) {
  LoadOptions options;
  options.device = bench.device;
  options.kernels = bench.kernels;
  options.threads = bench.threads.size();
  const auto loaded = load_model(bench.model, options);
  if (!loaded) {
    bench.failed.push_back("model: " + loaded.error().message);
    return;
  }
  const std::shared_ptr<const Model>& model = *loaded;
  const auto run = reinterpret_cast<BenchGpuModel>(model->device->function(kBenchGpuModelSymbol));
  if (run == nullptr) {
    bench.failed.push_back("model: the device's library has no rows of models");
    return;
  }
  GpuRows rows(bench);
  run({model->device, &model->config(), model->tower.on_device().get(),
       model->decoder.on_device().get()},
      rows);
  AskOptions ask;
  ask.max_tokens = 1;
  ask.plan = "uniform";
  first_token(bench, model, "first-token/full", ask, 19);
  ask.plan = "quadtree";
  ask.budget_tokens = sizes_for(bench.description).budget_tokens;
  first_token(bench, model, "first-token/68", ask, 4);
}

void bench_gpu(Bench& bench) {
  const auto device = open_accelerator(bench.device, bench.kernels == "portable");
  if (!device) {
    bench.error = device.error();
    return;
  }
  bench.description = (*device)->description();
  const auto run = reinterpret_cast<BenchGpu>((*device)->function(kBenchGpuSymbol));
  if (run == nullptr) {
    bench.error = bad_input("device " + bench.device + " has no kernels to time; use cuda[:i]");
    return;
  }
  GpuRows rows(bench);
  run(*device, rows);
  if (!bench.model.empty()) bench_gpu_model(bench);
}

const BenchRegistration kRegistered("gpu", "kernels", bench_gpu);

}  // namespace
}  // namespace fovea
