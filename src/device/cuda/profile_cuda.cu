// SPDX-License-Identifier: Apache-2.0
// What device/profile.h asks for: the ceilings, and what a profiler of kernels is told.
#include "device/profile.h"

#include <cstdlib>
#include <optional>

#include "base/check.h"
#include "device/cuda/gpu_bench.h"
#include "device/cuda/kernel.h"

#if !defined(FOVEA_EMULATE)
#include <cuda_profiler_api.h>
#endif

// Its name is what tells it from others.
static __global__ void fovea_stage_ends() {}

namespace fovea {
namespace {

// Keeps no rows, and the first thing that is wrong.
class CeilingReport : public GpuBench {
 public:
  void progress(const std::string& /*name*/) override {}
  void add(bool verified, const BenchRow& row) override {
    if (!verified) fail(row.name, failed("the result is wrong"));
  }
  void fail(const std::string& name, const Error& error) override {
    if (!error_) error_ = failed(name + ": " + error.message);
  }
  // Ceilings are verified without the CPU.
  Threads& threads() override {
    FOVEA_CHECK(false);
    std::abort();
  }
  void* of_cpu(const char* /*name*/) const override { return nullptr; }

  const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace
}  // namespace fovea

#define FOVEA_EXPORT extern "C" __attribute__((visibility("default")))

FOVEA_EXPORT void fovea_mark_stage(const std::shared_ptr<fovea::Accelerator>& device, int stage) {
  auto& cuda = static_cast<fovea::CudaAccelerator&>(*device);
  const fovea::CudaAccelerator::Lock lock(cuda);
  fovea::launch(
      fovea_stage_ends,
      {.grid = static_cast<unsigned>(stage + 1), .block = 1, .stream = cuda.stream().get()});
}

FOVEA_EXPORT void fovea_record_kernels([[maybe_unused]] bool on) {
#if !defined(FOVEA_EMULATE)
  if (on)
    cudaProfilerStart();
  else
    cudaProfilerStop();
#endif
}

FOVEA_EXPORT void fovea_measure_ceilings(const std::shared_ptr<fovea::Accelerator>& device,
                                         fovea::Result<fovea::DeviceCeilings>& result) {
  auto cuda = std::static_pointer_cast<fovea::CudaAccelerator>(device);
  const fovea::CudaAccelerator::Lock lock(*cuda);
  fovea::CeilingReport report;
  fovea::CudaBench bench(cuda, report);
  for (const fovea::CudaBenchEntry& entry : fovea::cuda_bench_entries()) {
    if (entry.phase != fovea::kCeilingPhase) continue;
    entry.run(bench);
    bench.settle(entry.name);
  }
  if (report.error())
    (void)(result = *report.error());
  else
    (void)(result = bench.ceilings);
}
