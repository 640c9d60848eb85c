// SPDX-License-Identifier: Apache-2.0
// Salience on the device: salience.h for a batch of canvases, in six launches.
#pragma once

#include "device/cuda/stream.h"
#include "pyramid/device_pyramids.h"
#include "relevance/device_maps.h"
#include "relevance/figure_cuda.h"
#include "relevance/salience.h"

namespace fovea {

// The finest level of at most kFigurePixels pixels, as salience_work_level() has it.
int salience_work_level(Size canvas);

// What lies between the launches, for canvases of one size.
class SalienceWorkspace {
 public:
  // `in_shared` false keeps the figure's pictures in the device's memory even where a block's own
  // would hold them.
  Status make(Size canvas, int images, bool in_shared = true);

 private:
  friend void begin_salience_cuda(cudaStream_t, const DevicePyramids&, SalienceWorkspace&,
                                  cudaEvent_t);
  friend void finish_salience_cuda(cudaStream_t, const DevicePyramids&, const SalienceParams&,
                                   SalienceWorkspace&, const DeviceMaps&);

  Size canvas_;
  int images_ = 0;
  int work_level_ = 0;
  FigureLayout layout_;
  DeviceMemory<uint16_t> texture_;            // [images][pixels of the work level]
  DeviceMemory<uint32_t> state_;              // of the figure, where shared memory is too small
  DeviceMemory<uint32_t> figure_;             // [images][channels][pixels]
  DeviceMemory<uint32_t> blurred_;            // [2][images][pixels]: figure, texture
  DeviceMemory<double> cells_;                // [2][images][cells]: the same; then salience
  DeviceMemory<unsigned long long> largest_;  // [images][kLargest]: bits of doubles
};

// Texture and figure. `textured` is recorded between them: the figure leaves the memory idle, so
// other work may begin there.
void begin_salience_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                         SalienceWorkspace& workspace, cudaEvent_t textured);
// Every value equals the CPU's. salience: at the grid of params.level
void finish_salience_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                          const SalienceParams& params, SalienceWorkspace& workspace,
                          const DeviceMaps& salience);

}  // namespace fovea
