// SPDX-License-Identifier: Apache-2.0
// Maps and detail of a batch of canvases of one size, as kernels see them.
#pragma once

#include <cstdint>

#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

struct DeviceMaps {
  Grid grid;
  int images = 0;
  uint16_t* score = nullptr;  // [images][rows][cols]
};

// As Detail has it.
struct DeviceDetail {
  int levels = 0;
  int images = 0;
  Grid grid[kMaxLevels];
  uint64_t* lost[kMaxLevels] = {};  // [images][rows][cols] of each level; lost[0] is null: all zero
};

}  // namespace fovea
