// SPDX-License-Identifier: Apache-2.0
// A GPU's kernels against its ceilings, and a model on it: `fovea bench gpu [--model DIR]`.
#include "base/bench.h"
#include "device/accelerator.h"
#include "engine/gpu_rows.h"

namespace fovea {
namespace {

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
}

const BenchRegistration kRegistered("gpu", "kernels", bench_gpu);

}  // namespace
}  // namespace fovea
