// SPDX-License-Identifier: Apache-2.0
// Pyramids of a batch of canvases of one size, as kernels see them.
#pragma once

#include <cstdint>

#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

struct DevicePyramids {
  Size canvas;
  int levels = 0;
  int images = 0;
  uint8_t* rgb[kMaxLevels] = {};          // [images][height][width][3] of each level
  int64_t stride_bytes[kMaxLevels] = {};  // between rows: a multiple of 16
  int64_t image_bytes[kMaxLevels] = {};   // between images: likewise
};

}  // namespace fovea
