// SPDX-License-Identifier: Apache-2.0
// Plans of a batch of canvases of one size, as kernels see them.
#pragma once

#include <cstdint>

#include "fovea/words.h"

namespace fovea {

struct DevicePlans {
  Size canvas;
  int images = 0;
  int room = 0;           // cells there is memory for, an image
  Cell* cells = nullptr;  // [images][room], in the order of a plan
  int* counts = nullptr;  // [images]: cells of each
};

}  // namespace fovea
