// SPDX-License-Identifier: Apache-2.0
// Weights on their way to a GPU. Several threads copy pieces of them from where the files are
// mapped to pinned memory, which alone takes most of the time, while the device copies those
// before.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "device/cuda/staging.h"
#include "device/cuda/stream.h"

namespace fovea {

class WeightUploads {
 public:
  // `helpers`: threads besides the caller's; where the system has none, it goes on without them.
  explicit WeightUploads(Stream& stream, int helpers = usual_helpers());
  ~WeightUploads();
  WeightUploads(const WeightUploads&) = delete;
  WeightUploads& operator=(const WeightUploads&) = delete;

  // Values that stay until finish(), to memory of the device.
  template <class T>
  Status put(T* to, const T* from, size_t count) {
    return put(static_cast<void*>(to), std::as_bytes(std::span(from, count)));
  }
  // The same of values that may go at once: small ones.
  template <class T>
  Status put_now(T* to, const T* from, size_t count) {
    return staging_.upload(stream_, std::as_bytes(std::span(from, count)), to);
  }

  // All of it is enqueued: what is enqueued from now on finds it there.
  Status settle();
  // All of it is there.
  Status finish();

  Stream& stream() const { return stream_; }

 private:
  static constexpr size_t kPieceBytes = size_t{2} << 20;
  static constexpr int kMostHelpers = 7;
  static constexpr int kSlots = 2;  // of a thread: it fills one while the other is copied
  struct Piece {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
  };
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  // A thread's.
  struct Slots {
    std::array<Slot, kSlots> slot;
    size_t next = 0;
  };

  static int usual_helpers();
  Status open();
  Status put(void* to, std::span<const std::byte> bytes);
  void help(size_t index);
  Piece take();  // with the lock held, and where there is one
  static cudaError_t copy(const Piece& piece, cudaStream_t stream, Slots& slots);
  void end(cudaError_t error);

  Stream& stream_;
  int wanted_helpers_;
  int device_ = 0;
  Staging staging_;
  PinnedMemory<std::byte> memory_;
  std::vector<Slots> slots_;  // the caller's, then those of each helper
  std::vector<std::thread> helpers_;

  std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  std::vector<Piece> pieces_;
  size_t taken_ = 0;
  size_t ended_ = 0;
  cudaError_t error_ = cudaSuccess;
  bool stop_ = false;
};

}  // namespace fovea
