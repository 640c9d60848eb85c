// SPDX-License-Identifier: Apache-2.0
#include "pyramid/upload_cuda.h"

#include <cstring>

#include "base/check.h"
#include "pyramid/pyramid_cuda.h"

namespace fovea {

CanvasUploads::~CanvasUploads() { static_cast<void>(copies_.wait()); }

Status CanvasUploads::open(Size canvas) {
  canvas_ = canvas;
  canvas_bytes_ = static_cast<size_t>(canvas.pixels()) * 3;
  if (Status opened = copies_.open(); !opened) return opened;
  for (PinnedMemory<uint8_t>& buffer : buffers_)
    if (Status room = buffer.at_least(canvas_bytes_); !room) return room;
  for (StreamEvent* events : {sent_, arrived_, released_})
    for (int i = 0; i < 2; ++i)
      if (Status opened = events[i].open(); !opened) return opened;
  return Done{};
}

void CanvasUploads::begin(const DevicePyramids& batch) {
  FOVEA_CHECK(batch.canvas == canvas_);
  batch_ = batch;
  pushed_ = 0;
  released_[turn_].hold(copies_.get());
}

Result<uint8_t*> CanvasUploads::next_canvas() {
  if (const Status free = sent_[buffer_].wait(); !free) return free.error();
  return buffers_[buffer_].data();
}

void CanvasUploads::send() {
  FOVEA_CHECK(pushed_ < batch_.images);
  upload_canvas_cuda(copies_.get(), batch_, pushed_, buffers_[buffer_].data());
  sent_[buffer_].record(copies_.get());
  buffer_ = (buffer_ + 1) % kBuffers;
  ++pushed_;
}

Status CanvasUploads::push(const uint8_t* rgb) {
  const Result<uint8_t*> to = next_canvas();
  if (!to) return to.error();
  std::memcpy(*to, rgb, canvas_bytes_);
  send();
  return Done{};
}

void CanvasUploads::hand_over(cudaStream_t compute) {
  arrived_[turn_].record(copies_.get());
  arrived_[turn_].hold(compute);
}

void CanvasUploads::release(cudaStream_t compute) {
  released_[turn_].record(compute);
  turn_ = 1 - turn_;
}

}  // namespace fovea
