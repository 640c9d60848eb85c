// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gpu_bench.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "device/cuda/kernel.h"

namespace fovea {
namespace {

using HostClock = std::chrono::steady_clock;

double ms_since(HostClock::time_point start) {
  return std::chrono::duration<double, std::milli>(HostClock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

__global__ void write_random(bf16* values, int64_t count, uint32_t seed, float scale) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += step)
    values[at] = to_bf16(random_value(seed, at, scale));
}

#if !defined(FOVEA_EMULATE)

constexpr int kWarmCalls = 3;
constexpr double kRoundMs = 1.0;  // what a round is to take: far more than its launch
constexpr int kMostCalls = 256;
constexpr int kLeastRounds = 11;
constexpr int kMostRounds = 200;
constexpr double kBudgetMs = 150;

// Two events around some work.
class GpuClock {
 public:
  explicit GpuClock(cudaStream_t stream) : stream_(stream) {
    good_ = cudaEventCreateWithFlags(&start_, cudaEventDefault) == cudaSuccess &&
            cudaEventCreateWithFlags(&stop_, cudaEventDefault) == cudaSuccess;
  }
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;
  ~GpuClock() {
    if (start_ != nullptr) cudaEventDestroy(start_);
    if (stop_ != nullptr) cudaEventDestroy(stop_);
  }

  void start() {
    if (good_) cudaEventRecord(start_, stream_);
  }
  Result<double> stop() {
    if (!good_) return failed("CUDA: no events");
    cudaEventRecord(stop_, stream_);
    cudaError_t error = cudaEventSynchronize(stop_);
    if (error == cudaSuccess) error = cudaGetLastError();
    float ms = 0;
    if (error == cudaSuccess) error = cudaEventElapsedTime(&ms, start_, stop_);
    if (error != cudaSuccess) return cuda_error("a computation", error);
    return static_cast<double>(ms);
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  bool good_ = false;
};

// Calls that are launched at once, where they can be captured.
class RecordedCalls {
 public:
  RecordedCalls(cudaStream_t stream, int calls, const std::function<void(int)>& enqueue)
      : stream_(stream), calls_(calls), enqueue_(enqueue) {
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
      cudaGetLastError();
      return;
    }
    for (int i = 0; i < calls; ++i) enqueue(i);
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess ||
        cudaGraphInstantiate(&graph_, graph, 0) != cudaSuccess)
      graph_ = nullptr;
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // what cannot be captured is enqueued call by call
  }
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;
  ~RecordedCalls() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }

  void launch() {
    if (graph_ != nullptr) {
      cudaGraphLaunch(graph_, stream_);
      return;
    }
    for (int i = 0; i < calls_; ++i) enqueue_(i);
  }

 private:
  cudaStream_t stream_;
  int calls_;
  const std::function<void(int)>& enqueue_;
  cudaGraphExec_t graph_ = nullptr;
};

#endif

}  // namespace

#if defined(FOVEA_EMULATE)

double CudaBench::ms_of(int /*sets*/, const std::function<void(int)>& enqueue) {
  return host_ms_of([&] { enqueue(0); });
}

double CudaBench::ms_after(const std::function<void()>& prepare,
                           const std::function<void()>& enqueue) {
  prepare();
  return host_ms_of(enqueue);
}

#else

double CudaBench::ms_of(int sets, const std::function<void(int)>& enqueue) {
  if (!good()) return 0;
  for (int i = 0; i < std::max(sets, kWarmCalls); ++i) enqueue(i);
  if (!check(stream().wait())) return 0;
  GpuClock clock(get());
  clock.start();
  for (int i = 0; i < kWarmCalls; ++i) enqueue(i);
  const Result<double> warm = clock.stop();
  if (!warm) {
    check(warm.error());
    return 0;
  }
  const double expected_ms = std::max(*warm / kWarmCalls, 1e-3);
  const int wanted = std::clamp(static_cast<int>(kRoundMs / expected_ms), 1, kMostCalls);
  const int calls = (wanted + sets - 1) / sets * sets;
  RecordedCalls recorded(get(), calls, enqueue);
  recorded.launch();
  if (!check(stream().wait())) return 0;
  std::vector<double> times;
  double total = 0;
  while (static_cast<int>(times.size()) < kLeastRounds ||
         (total < kBudgetMs && static_cast<int>(times.size()) < kMostRounds)) {
    clock.start();
    recorded.launch();
    const Result<double> ms = clock.stop();
    if (!ms) {
      check(ms.error());
      return 0;
    }
    times.push_back(*ms / calls);
    total += *ms;
  }
  return median(times);
}

double CudaBench::ms_after(const std::function<void()>& prepare,
                           const std::function<void()>& enqueue) {
  if (!good()) return 0;
  GpuClock clock(get());
  std::vector<double> times;
  for (int i = 0; i < kWarmCalls + 2 * kLeastRounds; ++i) {
    prepare();
    clock.start();
    enqueue();
    const Result<double> ms = clock.stop();
    if (!ms) {
      check(ms.error());
      return 0;
    }
    if (i >= kWarmCalls) times.push_back(*ms);
  }
  return median(times);
}

#endif

double CudaBench::host_ms_of(const std::function<void()>& enqueue) {
  constexpr int kCalls = kEmulated ? 1 : 13;
  std::vector<double> times;
  for (int i = 0; i < kCalls && good(); ++i) {
    const auto start = HostClock::now();
    enqueue();
    check(stream().wait());
    if (i >= 2 || kEmulated) times.push_back(ms_since(start));
  }
  return times.empty() ? 0 : median(times);
}

bool CudaBench::check(const Status& status) {
  if (!status && !error_) error_ = status.error();
  return static_cast<bool>(status);
}

void CudaBench::add(bool verified, BenchRow row) {
  check(stream().wait());
  if (error_) {
    report_.fail(row.name, *error_);
    error_.reset();
    return;
  }
  if (kEmulated) row.note = "emulated" + std::string(row.note.empty() ? "" : ", ") + row.note;
  report_.add(verified, row);
}

void CudaBench::settle(const std::string& name) {
  check(stream().wait());
  if (error_) report_.fail(name, *error_);
  error_.reset();
}

void fill_random_cuda(cudaStream_t stream, bf16* values, int64_t count, uint32_t seed,
                      float scale) {
  constexpr int kThreads = 256;
  const int64_t blocks = std::min(ceil_div(count, int64_t{kThreads}), int64_t{8192});
  if (count > 0)
    launch(write_random,
           {.grid = static_cast<unsigned>(blocks), .block = kThreads, .stream = stream}, values,
           count, seed, scale);
}

DeviceCeilings& measured_ceilings() {
  static DeviceCeilings ceilings;
  return ceilings;
}

std::vector<CudaBenchEntry>& cuda_bench_entries() {
  static std::vector<CudaBenchEntry> entries;
  return entries;
}

}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_bench_gpu(
    const std::shared_ptr<fovea::Accelerator>& device, fovea::GpuBench& report) {
  auto gpu = std::static_pointer_cast<fovea::CudaAccelerator>(device);
  const fovea::CudaAccelerator::Lock lock(*gpu);
  fovea::CudaBench bench(gpu, report);
  std::vector<fovea::CudaBenchEntry> entries = fovea::cuda_bench_entries();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.phase != b.phase ? a.phase < b.phase : std::string_view(a.name) < b.name;
  });
  for (const fovea::CudaBenchEntry& entry : entries) {
    // Limits of other rows are made of the ceilings.
    if (entry.phase != fovea::kCeilingPhase && !report.wants(entry.name)) continue;
    report.progress(entry.name);
    entry.run(bench);
    bench.settle(entry.name);
  }
}
