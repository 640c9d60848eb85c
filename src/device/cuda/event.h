// SPDX-License-Identifier: Apache-2.0
// A point in the work of a stream, for another stream or the host to wait for.
#pragma once

#include "device/cuda/stream.h"

namespace fovea {

class StreamEvent {
 public:
  StreamEvent() = default;
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;
  ~StreamEvent() {
    if (open_) cudaEventDestroy(event_);
  }

  Status open() {
    const cudaError_t error = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    if (error != cudaSuccess) return cuda_error("an event", error);
    open_ = true;
    return Done{};
  }
  // What is in the stream so far is what is waited for. Before the first time it is nothing.
  void record(cudaStream_t stream) { cudaEventRecord(event_, stream); }
  // What comes into the stream from now on waits.
  void hold(cudaStream_t stream) const { cudaStreamWaitEvent(stream, event_, 0); }
  // The host waits.
  Status wait() const {
    const cudaError_t error = cudaEventSynchronize(event_);
    return error == cudaSuccess ? Status(Done{}) : Status(cuda_error("a computation", error));
  }

 private:
  cudaEvent_t event_ = nullptr;
  bool open_ = false;
};

}  // namespace fovea
