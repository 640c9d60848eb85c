// SPDX-License-Identifier: Apache-2.0
// Small things on their way to a GPU: pinned memory in turns, so that the host fills one piece
// while the device still copies from another.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "device/cuda/stream.h"

namespace fovea {

class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    for (Slot& slot : slots_)
      if (slot.made) cudaEventDestroy(slot.copied);
  }

  // Enqueues a copy of the values; they may go at once. `to` grows where it is too small.
  template <class T>
  Status upload(Stream& stream, std::span<const T> values, DeviceMemory<T>& to) {
    if (values.empty()) return Done{};
    if (auto room = to.at_least(values.size()); !room) return room;
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    if (auto ready = slot.prepare(values.size_bytes()); !ready) return ready;
    std::memcpy(slot.memory.data(), values.data(), values.size_bytes());
    stream.upload(reinterpret_cast<unsigned char*>(to.data()),
                  static_cast<const unsigned char*>(slot.memory.data()), values.size_bytes());
    cudaEventRecord(slot.copied, stream.get());
    return Done{};
  }

 private:
  struct Slot {
    PinnedMemory<unsigned char> memory;
    cudaEvent_t copied = nullptr;
    bool made = false;

    Status prepare(size_t bytes) {
      if (!made) {
        const cudaError_t error = cudaEventCreateWithFlags(&copied, cudaEventDisableTiming);
        if (error != cudaSuccess) return cuda_error("an event", error);
        made = true;
      } else if (const cudaError_t error = cudaEventSynchronize(copied); error != cudaSuccess) {
        return cuda_error("a copy to the device", error);
      }
      return memory.at_least(std::max<size_t>(bytes, size_t{64} << 10));
    }
  };

  std::array<Slot, 8> slots_;
  size_t next_ = 0;
};

}  // namespace fovea
