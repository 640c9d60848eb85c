// SPDX-License-Identifier: Apache-2.0
// Pyramids as textures: a layered array of RGBA with levels, whose filtering is done by the
// device's own units, between pixels and between levels. Textures are not emulated.
#pragma once

#if !defined(FOVEA_EMULATE)

#include "device/cuda/stream.h"
#include "pyramid/device_pyramids.h"

namespace fovea {

// A place of the canvas, pixel i reaching from i to i + 1, at a level that may lie between two.
struct SamplePoint {
  int image = 0;
  float x_px = 0;
  float y_px = 0;
  float level = 0;
};

// One canvas is one layer. An array's levels round sides down where a pyramid's round them up, so
// its sides are those of the canvas up to the next multiple of 2^(levels - 1); what lies beyond a
// level's edge repeats the last pixels.
class PyramidTexture {
 public:
  PyramidTexture() = default;
  PyramidTexture(const PyramidTexture&) = delete;
  PyramidTexture& operator=(const PyramidTexture&) = delete;
  ~PyramidTexture() { release(); }

  // As PyramidsOnDevice::make.
  Status make(Size canvas, int images, int levels = 0);

  // The first `levels` levels from pyramids of the same canvas, one launch for each.
  void fill(cudaStream_t stream, const DevicePyramids& pyramids, int levels) const;
  // Every coarser level from level 0 by the texture units: one launch for each. Differs from the
  // pyramid's by a step where the units round otherwise.
  void build(cudaStream_t stream) const;
  // rgb: [count][3], 0 to 255, filtered between the pixels of the two levels around each point.
  void sample(cudaStream_t stream, const SamplePoint* points, int count, float* rgb) const;

  int levels() const { return levels_; }

 private:
  Status make_level(int level);
  Status make_sampler();
  void release();

  Size canvas_;
  Size padded_;
  int images_ = 0;
  int levels_ = 0;
  cudaMipmappedArray_t array_ = nullptr;
  cudaTextureObject_t sampler_ = 0;
  cudaSurfaceObject_t writers_[kMaxLevels] = {};
};

}  // namespace fovea

#endif
