// SPDX-License-Identifier: Apache-2.0
#include "profile/measure.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/check.h"
#include "bench/bench.h"
#include "engine/see_parts.h"
#include "media/decode.h"
#include "ops/fma_peak.h"

namespace fovea::app {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <class Function>
Function function_of(const Model& model, const char* name) {
  const auto function = reinterpret_cast<Function>(model.device->function(name));
  FOVEA_CHECK(function != nullptr);
  return function;
}

// Waits for the device where a stage ends, while it lives.
class StageWaiter {
 public:
  using OnStage = std::function<void(const std::string&)>;

  // `on_stage` comes before the wait.
  explicit StageWaiter(const Model& model, OnStage on_stage = nullptr) : device_(*model.device) {
    device_.on_stage = [this, on_stage = std::move(on_stage)](const std::string& stage) {
      if (on_stage) on_stage(stage);
      if (auto done = device_.wait(); !done && worked_) worked_ = done;
    };
  }
  StageWaiter(const StageWaiter&) = delete;
  StageWaiter& operator=(const StageWaiter&) = delete;
  ~StageWaiter() { device_.on_stage = nullptr; }

  // The first error of the device.
  const Status& worked() const { return worked_; }

 private:
  Accelerator& device_;
  Status worked_ = Done{};
};

}  // namespace

Result<RequestRun> Requests::run() const {
  RequestRun run;
  const auto start = Clock::now();
  auto image = decode_image(file_, "image", image_limits_of({.max_pixels = max_pixels_}));
  if (!image) return image.error();
  const double decode_ms = ms_since(start);
  Session session = session_of(model_);
  if (auto added = session.add(std::move(*image), max_pixels_); !added) return added.error();
  AskOptions options = options_;
  options.share = false;  // each run does all the work
  auto answer = session.ask(question_, options);
  if (!answer) return answer.error();
  run.whole_ms = ms_since(start);
  run.ms[static_cast<size_t>(Stage::kDecode)] = decode_ms;
  double known_ms = decode_ms;
  for (const StageTime& time : answer->trace.times) {
    if (time.stage == "first_token") run.first_token_ms = decode_ms + time.ms;
    const auto stage = stage_of_lap(time.stage);
    if (!stage) continue;
    run.ms[static_cast<size_t>(*stage)] += time.ms;
    known_ms += time.ms;
  }
  run.ms[static_cast<size_t>(Stage::kOther)] = std::max(0.0, run.whole_ms - known_ms);
  run.answer = std::move(*answer);
  return run;
}

Result<RequestRun> Requests::run_by_stage() const {
  StageWaiter waiter(*model_);
  auto ran = run();
  if (ran && !waiter.worked()) return waiter.worked().error();
  return ran;
}

Status Requests::run_recorded() const {
  const auto mark = function_of<MarkStage>(*model_, kMarkStageSymbol);
  const auto record = function_of<RecordKernels>(*model_, kRecordKernelsSymbol);
  StageWaiter waiter(*model_, [&](const std::string& lap) {
    if (const auto stage = stage_of_lap(lap)) mark(model_->device, static_cast<int>(*stage));
  });
  record(true);
  const auto ran = run();
  record(false);
  return ran ? waiter.worked() : Status(ran.error());
}

Result<RequestRun> Requests::warm_up() const {
  // A device's graphs are recorded the second time (device/cuda/graphs.h).
  auto first = run();
  if (first && model_->device->works_ahead())
    if (auto second = run(); !second) return second;
  return first;
}

RequestRun median_run(std::vector<RequestRun> runs) {
  FOVEA_CHECK(!runs.empty());
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end(), [](const RequestRun& a, const RequestRun& b) {
    return a.whole_ms < b.whole_ms;
  });
  return std::move(*middle);
}

Result<Ceilings> measure_ceilings(const Model& model) {
  Ceilings ceilings;
  Bench bench(*model.threads, nullptr);
  ceilings.host.copy_bytes_per_ms = bench.copy_bytes_per_ms();
  ceilings.host.read_bytes_per_ms = bench.read_bytes_per_ms();
  ceilings.host.product_flop_per_ms = fma_peak_gflops(*model.threads) * 1e6;
  ceilings.device = ceilings.host;
  if (!model.device->works_ahead()) return ceilings;
  Result<DeviceCeilings> measured = failed("");
  function_of<MeasureCeilings>(model, kMeasureCeilingsSymbol)(model.device, measured);
  if (!measured) return measured.error();
  ceilings.device = *measured;
  return ceilings;
}

}  // namespace fovea::app
