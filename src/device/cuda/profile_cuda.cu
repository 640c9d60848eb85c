// SPDX-License-Identifier: Apache-2.0
// What a profiler of kernels is told, for device/profile.h.
#include "device/profile.h"

#include "device/cuda/cuda_accelerator.h"
#include "device/cuda/kernel.h"

#if !defined(FOVEA_EMULATE)
#include <cuda_profiler_api.h>
#endif

// Its name is what tells it from others.
static __global__ void fovea_stage_ends() {}

#define FOVEA_EXPORT extern "C" __attribute__((visibility("default")))

FOVEA_EXPORT void fovea_mark_stage(const std::shared_ptr<fovea::Accelerator>& device, int stage) {
  auto& cuda = static_cast<fovea::CudaAccelerator&>(*device);
  const fovea::CudaAccelerator::Turn turn(cuda);
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
