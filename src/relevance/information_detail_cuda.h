// SPDX-License-Identifier: Apache-2.0
// Information and detail on the device, of all cells of all images, from one reading of the pixels.
#pragma once

#include "device/cuda/runtime.h"
#include "pyramid/device_pyramids.h"
#include "relevance/device_maps.h"

namespace fovea {

struct InformationDetail {
  int level = 0;                    // of the information's cells
  DeviceMaps information;           // without scores: not wanted
  const uint32_t* plogp = nullptr;  // [kCellPx^2 + 1]
  DeviceDetail detail;              // 0 levels: not wanted
  unsigned* done = nullptr;         // [images]: blocks that have ended; 0 before and after
};

// One launch. Every value equals the CPU's.
void measure_information_detail_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                                     const InformationDetail& wanted);

}  // namespace fovea
