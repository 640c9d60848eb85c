// SPDX-License-Identifier: Apache-2.0
// Pyramids on the device: the levels of build_pyramid, bit for bit.
#pragma once

#include "device/cuda/stream.h"
#include "pyramid/device_pyramids.h"

namespace fovea {

// Owns the levels of a batch of canvases of one size: one piece of memory.
class PyramidsOnDevice {
 public:
  // The canvas is one of smart_resize: its sides are multiples of 32 px. `levels` counts level 0;
  // 0 means: until one cell covers the canvas. Memory that is there is used again.
  Status make(Size canvas, int images, int levels = 0);
  // The same without waiting: for who works in the order of memory_order() alone.
  Status make_in_order(Size canvas, int images, int levels = 0);

  DevicePyramids view() const { return view_; }
  // [images]: zero between launches, as build_pyramids_cuda and update_pyramids_cuda need and leave
  // it.
  unsigned* done() { return done_.data(); }
  size_t bytes() const { return memory_.bytes() + done_.bytes(); }

 private:
  DeviceMemory<uint8_t> memory_;
  DeviceMemory<unsigned> done_;
  DevicePyramids view_;
};

// How a block gets its pixels. Both give the same levels; a bench tells which is faster on a
// device.
enum class PyramidLoads {
  kDirect,  // each thread reads the 48 bytes of a row that it halves
  kStaged,  // neighbouring threads read neighbouring bytes, and exchange them in shared memory
};

// Level 0 of one image from a canvas in the host's memory: [height][width][3] without padding.
void upload_canvas_cuda(cudaStream_t stream, const DevicePyramids& pyramids, int image,
                        const uint8_t* rgb);

// Makes every coarser level of every image from level 0, in one launch. `done`: [images], zero
// before and after.
void build_pyramids_cuda(cudaStream_t stream, const DevicePyramids& pyramids, unsigned* done,
                         PyramidLoads loads = PyramidLoads::kDirect);

// Recomputes what depends on the changed tiles of level 0 of one image, in any order, repeated or
// not. `tiles`: [count] on the device. Equals a rebuild when no pixel outside of them was edited.
void update_pyramids_cuda(cudaStream_t stream, const DevicePyramids& pyramids, int image,
                          const Tile* tiles, int count, unsigned* done);

}  // namespace fovea
