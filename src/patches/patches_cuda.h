// SPDX-License-Identifier: Apache-2.0
// Patches on the device: the bf16 values of sample_patches, bit for bit.
#pragma once

#include "device/cuda/runtime.h"
#include "gaze/device_plans.h"
#include "patches/device_patches.h"
#include "pyramid/device_pyramids.h"

namespace fovea {

// How the work is shared out. What comes out is the same for all.
struct SamplingOrder {
  // [images][room]: for each image a permutation of its cells, in which they are sampled; entries
  // beyond its count are not read. Without it cells are sampled in the order of the plan, in which
  // neighbours read the same level.
  const int* mixed = nullptr;
  // The next cell's pixels are read before the values of this one are stored.
  bool prefetch = true;
  // How many cells a block samples one after the other, at most 32; 0: enough to fill a GPU.
  int cells_per_block = 0;
};

// Values, places and offsets of all images in one launch. The plans' cells lie on the pyramids'
// grids. Pixels beyond a level's edge repeat the last.
void sample_patches_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                         const DevicePlans& plans, const DevicePatches& patches,
                         const SamplingOrder& order = {});

// Brings the pixels of the plans' cells into the second cache: those of the plan before, where the
// next one is expected to look at much the same places.
void warm_cache_cuda(cudaStream_t stream, const DevicePyramids& pyramids, const DevicePlans& plans);

}  // namespace fovea
