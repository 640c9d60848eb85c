// SPDX-License-Identifier: Apache-2.0
// What a device can do at best; and what `fovea profile` asks a run-time library for.
#pragma once

#include <memory>

#include "device/accelerator.h"
#include "fovea/result.h"

namespace fovea {

// What a device can do at best, measured.
struct DeviceCeilings {
  double copy_bytes_per_ms = 0;  // bytes read + bytes written
  double read_bytes_per_ms = 0;
  double upload_bytes_per_ms = 0;  // from pinned memory of the host
  double product_flop_per_ms = 0;  // of a large product
};

inline constexpr const char* kMeasureCeilingsSymbol = "fovea_measure_ceilings";
using MeasureCeilings = void (*)(const std::shared_ptr<Accelerator>& device,
                                 Result<DeviceCeilings>& result);

// A profiler that was told to wait records from here on, or no longer.
inline constexpr const char* kRecordKernelsSymbol = "fovea_record_kernels";
using RecordKernels = void (*)(bool on);

// Enqueues a kernel of this name with `stage` + 1 blocks and nothing to do: whoever records kernels
// sees which stage ends there.
inline constexpr const char* kStageMark = "fovea_stage_ends";
inline constexpr const char* kMarkStageSymbol = "fovea_mark_stage";
using MarkStage = void (*)(const std::shared_ptr<Accelerator>& device, int stage);

}  // namespace fovea
