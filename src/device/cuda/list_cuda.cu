// SPDX-License-Identifier: Apache-2.0
// The CUDA devices of this machine, for device/device.h.
#include <cstdio>

#include "device/cuda/runtime.h"
#include "device/device.h"

extern "C" __attribute__((visibility("default"))) void fovea_list_devices(fovea::FoundDevice found,
                                                                          void* context) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return;  // no driver: no devices
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp device{};
    if (cudaGetDeviceProperties(&device, i) != cudaSuccess) continue;
    char description[512];
    std::snprintf(description, sizeof description, "%s, %.1f GiB, compute capability %d.%d",
                  device.name, static_cast<double>(device.totalGlobalMem) / (1024.0 * 1024 * 1024),
                  device.major, device.minor);
    found(context, description);
  }
}
