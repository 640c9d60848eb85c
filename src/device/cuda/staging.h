// SPDX-License-Identifier: Apache-2.0
// Small things on their way to a GPU and from it: pinned memory in turns, so that the host fills
// one piece while the device still copies from another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "device/accelerator.h"
#include "device/cuda/stream.h"

namespace fovea {

class Staging {
 public:
  // So many pieces are on their way before the next one waits for the first.
  explicit Staging(size_t slots = 8) : slots_(slots) {}
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
    return upload(stream, std::as_bytes(values), to.data());
  }

  // The same to memory that is there. What is large goes in pieces: one is copied to the device
  // while the next is copied into pinned memory, by `copy` where given.
  Status upload(Stream& stream, std::span<const std::byte> bytes, void* to,
                const CopyBytes& copy = {}) {
    for (size_t done = 0; done < bytes.size(); done += kPieceBytes) {
      const auto piece = bytes.subspan(done, std::min(kPieceBytes, bytes.size() - done));
      Slot& slot = slots_[next_];
      next_ = (next_ + 1) % slots_.size();
      if (auto ready = slot.prepare(piece.size()); !ready) return ready;
      if (copy)
        copy(slot.memory.data(), piece.data(), piece.size());
      else
        std::memcpy(slot.memory.data(), piece.data(), piece.size());
      stream.upload(static_cast<unsigned char*>(to) + done,
                    static_cast<const unsigned char*>(slot.memory.data()), piece.size());
      cudaEventRecord(slot.copied, stream.get());
    }
    return Done{};
  }

 private:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
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

  std::vector<Slot> slots_;
  size_t next_ = 0;
};

// Small things on their way from a GPU: all of them at once, in place of one after the other.
class Downloads {
 public:
  Status open() { return memory_.at_least(kBytes); }

  // Enqueues a copy to `to`, which is there after finish().
  template <class T>
  void add(Stream& stream, T* to, const T* from, size_t count) {
    const size_t bytes = count * sizeof(T);
    if (used_ + bytes > memory_.size()) {
      stream.download(to, from, count);
      return;
    }
    stream.download(memory_.data() + used_, reinterpret_cast<const unsigned char*>(from), bytes);
    pieces_.push_back({to, used_, bytes});
    used_ += (bytes + 15) / 16 * 16;
  }
  Status finish(Stream& stream) {
    Status done = stream.wait();
    for (const Piece& piece : pieces_)
      if (done) std::memcpy(piece.to, memory_.data() + piece.at, piece.bytes);
    pieces_.clear();
    used_ = 0;
    return done;
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  struct Piece {
    void* to;
    size_t at;
    size_t bytes;
  };
  PinnedMemory<unsigned char> memory_;
  std::vector<Piece> pieces_;
  size_t used_ = 0;
};

}  // namespace fovea
