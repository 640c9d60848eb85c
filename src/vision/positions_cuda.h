// SPDX-License-Identifier: Apache-2.0
// Where patches stand, on a GPU: the functions of positions.h.
#pragma once

#include "device/cuda/runtime.h"
#include "patches/patches.h"

namespace fovea {

// What patches are told of where they stand: the learned positions of a square table of `side`
// entries a side, and the embedding of their level.
struct PlaceTables {
  const float* positions = nullptr;  // [side * side or more][width]
  int side = 0;
  const float* levels = nullptr;  // [level_rows][width], or null
  int level_rows = 0;
  int width = 0;  // a multiple of 4
};

// x[p] += position of places[p] + embedding of its level; x: [count][width].
void add_places_cuda(cudaStream_t stream, const PatchPlace* places, int count, Size canvas,
                     const PlaceTables& tables, float* x);

// cos and sin of each patch: first those of its row, then those of its column: [count][2 *
// quarter]; frequencies: [quarter], as tower_frequencies gives them.
void rotary_angles_cuda(cudaStream_t stream, const PatchPlace* places, int count,
                        const float* frequencies, int quarter, float* cos, float* sin);

}  // namespace fovea
