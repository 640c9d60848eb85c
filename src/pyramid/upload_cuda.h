// SPDX-License-Identifier: Apache-2.0
// Canvases to the device while it computes: the copies go through two buffers of pinned memory in a
// stream of their own.
#pragma once

#include "device/cuda/event.h"
#include "device/cuda/stream.h"
#include "pyramid/device_pyramids.h"

namespace fovea {

// Batches take turns in two sets of pyramids, so that one is filled while the other is read:
//   uploads.begin(pyramids[turn].view());
//   for (...) uploads.push(canvas);
//   uploads.hand_over(compute);
//   ... what reads the batch is enqueued in `compute` ...
//   uploads.release(compute);
class CanvasUploads {
 public:
  CanvasUploads() = default;
  CanvasUploads(const CanvasUploads&) = delete;
  CanvasUploads& operator=(const CanvasUploads&) = delete;
  ~CanvasUploads();  // waits for the copies

  // For canvases of one size.
  Status open(Size canvas);

  // Canvases pushed from now on become the images of `batch`, in order. Their copies wait until
  // what read the batch before the last has ended.
  void begin(const DevicePyramids& batch);

  // Pinned memory for the next canvas: [height][width][3]. Waits until the copy that read it last
  // has ended. Whoever makes a canvas there saves the copy within the host's memory that push()
  // makes, which is slower than the way to the device unless several threads share it.
  Result<uint8_t*> next_canvas();
  // Sends what was written there.
  void send();

  // The same for a canvas that lies elsewhere; `rgb` is free afterwards.
  Status push(const uint8_t* rgb);

  // Work that comes into the stream from now on waits for all canvases of the batch.
  void hand_over(cudaStream_t compute);
  // All that reads the batch is in the stream.
  void release(cudaStream_t compute);

  int pushed() const { return pushed_; }  // canvases of this batch

 private:
  static constexpr int kBuffers = 2;

  size_t canvas_bytes_ = 0;
  Size canvas_;
  Stream copies_;
  PinnedMemory<uint8_t> buffers_[kBuffers];
  StreamEvent sent_[kBuffers];
  StreamEvent arrived_[2];   // all canvases of a batch; batches take turns
  StreamEvent released_[2];  // what reads a batch has ended
  DevicePyramids batch_;
  int buffer_ = 0;
  int turn_ = 0;
  int pushed_ = 0;
};

}  // namespace fovea
