// SPDX-License-Identifier: Apache-2.0
// Texture on the device: texture.h for a batch of pictures.
#pragma once

#include "device/cuda/runtime.h"
#include "pyramid/device_pyramids.h"

namespace fovea {

// texture: [images][height][width] of the work level, whose pixels are 2^(work - fine) pixels of
// the fine one a side (1, 2 or 4); values are at most 16 * 4 * 255. `largest` [images][kLargest]
// becomes 0: salience begins here.
inline constexpr int kLargest = 4;
void measure_texture_cuda(cudaStream_t stream, const DevicePyramids& pyramids, int fine, int work,
                          uint16_t* texture, unsigned long long* largest);

}  // namespace fovea
