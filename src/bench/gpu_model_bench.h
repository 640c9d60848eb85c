// SPDX-License-Identifier: Apache-2.0
// What a run-time library exports for the model rows of `fovea bench gpu`.
#pragma once

#include <memory>

#include "device/gpu_bench.h"
#include "language/device_decoder.h"
#include "vision/device_tower.h"
#include "weights/config.h"

namespace fovea {

struct GpuModel {
  std::shared_ptr<Accelerator> device;
  const ModelConfig* config = nullptr;
  DeviceTower* tower = nullptr;
  DeviceDecoder* decoder = nullptr;
};

inline constexpr const char* kBenchGpuModelSymbol = "fovea_bench_gpu_model";
using BenchGpuModel = void (*)(const GpuModel& model, GpuBench& bench);

}  // namespace fovea
