// SPDX-License-Identifier: Apache-2.0
// Coupling and balance on the device: coupling.h and balance.h for a batch of canvases.
#pragma once

#include "device/cuda/runtime.h"
#include "relevance/device_maps.h"
#include "relevance/relevance.h"

namespace fovea {

// As Relevance, for all images of a batch. The maps share one grid.
struct DeviceRelevance {
  DeviceMaps information;
  DeviceMaps salience;
  DeviceMaps coupling;  // written where a question was asked
  DeviceMaps compress_particularize;
  DeviceMaps exploit_explore;
  DeviceMaps focus_diversify;
  DeviceMaps relevance;
};

// Fits the coupling, one map an image at any grid that couple_map() knows, and balances all. One
// launch. kProduct is within one step of the CPU's (powers differ in their last bits), all else
// equal. `coupling` is null where no question was asked.
void weave_coupling_cuda(cudaStream_t stream, Size canvas, const DeviceMaps* coupling,
                         const RelevanceParams& params, const DeviceRelevance& parts);

// couple_points() for each image: within one step (exp2 differs in its last bits).
struct DevicePoints {
  int images = 0;
  int room = 0;                   // points there is memory for, an image
  const Point* points = nullptr;  // [images][room]
  const int* counts = nullptr;    // [images]
};
// coupling: at the level-0 grid
void couple_points_cuda(cudaStream_t stream, Size canvas, const DevicePoints& points,
                        const DeviceMaps& coupling);

}  // namespace fovea
