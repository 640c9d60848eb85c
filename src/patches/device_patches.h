// SPDX-License-Identifier: Apache-2.0
// Patches of a batch of plans, as kernels see them.
#pragma once

#include <cstdint>

#include "patches/patches.h"

namespace fovea {

// The patches of all images one after the other, without gaps. There is memory for those of as many
// cells as the plans have room for.
struct DevicePatches {
  // 2: values as Patches::bf16 has them. 1: the frame of a still image once, [channel 3][16 rows]
  // [16 columns], for weights whose two frames were added up.
  int frames = 2;
  uint16_t* values = nullptr;    // bf16: [patches][channel 3][frames][16][16]
  PatchPlace* places = nullptr;  // [patches], or none are wanted
  int* offsets = nullptr;  // [images + 1]: the first patch of each image, and how many there are
};

}  // namespace fovea
