// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/weight_uploads.h"

#include <algorithm>
#include <system_error>

namespace fovea {

// Half of the cores: copying does not get faster with all of them.
int WeightUploads::usual_helpers() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2 - 1, 0, kMostHelpers);
}

WeightUploads::WeightUploads(Stream& stream, int helpers)
    : stream_(stream), wanted_helpers_(std::clamp(helpers, 0, kMostHelpers)) {}

WeightUploads::~WeightUploads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
  // The device may still copy from what is about to go.
  for (const Slots& slots : slots_)
    for (const Slot& slot : slots.slot)
      if (slot.copied != nullptr) {
        cudaEventSynchronize(slot.copied);
        cudaEventDestroy(slot.copied);
      }
}

Status WeightUploads::open() {
  if (!slots_.empty()) return Done{};
  if (const cudaError_t error = cudaGetDevice(&device_); error != cudaSuccess)
    return cuda_error("the device", error);
  const auto threads = static_cast<size_t>(1 + wanted_helpers_);
  if (auto made = memory_.at_least(threads * kSlots * kPieceBytes); !made) return made;
  std::vector<Slots> slots(threads);
  std::byte* memory = memory_.data();
  for (Slots& of_thread : slots)
    for (Slot& slot : of_thread.slot) {
      slot.memory = memory;
      memory += kPieceBytes;
    }
  slots_ = std::move(slots);
  for (Slots& of_thread : slots_)
    for (Slot& slot : of_thread.slot)
      if (const cudaError_t error = cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming);
          error != cudaSuccess)
        return cuda_error("an event", error);
  helpers_.reserve(threads);
  try {
    for (size_t i = 1; i < threads; ++i) helpers_.emplace_back([this, i] { help(i); });
  } catch (const std::system_error&) {  // those that there are, or the caller alone, do it
  }
  return Done{};
}

Status WeightUploads::put(void* to, std::span<const std::byte> bytes) {
  if (auto opened = open(); !opened) return opened;
  {
    const std::lock_guard lock(mutex_);
    for (size_t done = 0; done < bytes.size(); done += kPieceBytes)
      pieces_.push_back({static_cast<std::byte*>(to) + done, bytes.data() + done,
                         std::min(kPieceBytes, bytes.size() - done)});
  }
  changed_.notify_all();
  return Done{};
}

WeightUploads::Piece WeightUploads::take() { return pieces_[taken_++]; }

cudaError_t WeightUploads::copy(const Piece& piece, cudaStream_t stream, Slots& slots) {
  const Slot& slot = slots.slot[slots.next];
  slots.next = (slots.next + 1) % slots.slot.size();
  // At once where it was never recorded.
  cudaError_t error = cudaEventSynchronize(slot.copied);
  if (error != cudaSuccess) return error;
  std::memcpy(slot.memory, piece.from, piece.bytes);
  error = cudaMemcpyAsync(piece.to, slot.memory, piece.bytes, cudaMemcpyHostToDevice, stream);
  return error == cudaSuccess ? cudaEventRecord(slot.copied, stream) : error;
}

void WeightUploads::end(cudaError_t error) {
  {
    const std::lock_guard lock(mutex_);
    ++ended_;
    if (error_ == cudaSuccess) error_ = error;
  }
  changed_.notify_all();
}

void WeightUploads::help(size_t index) {
  cudaSetDevice(device_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || taken_ < pieces_.size(); });
    if (stop_) return;
    const Piece piece = take();
    lock.unlock();
    end(copy(piece, stream_.get(), slots_[index]));
    lock.lock();
  }
}

Status WeightUploads::settle() {
  std::unique_lock lock(mutex_);
  while (taken_ < pieces_.size()) {
    const Piece piece = take();
    lock.unlock();
    end(copy(piece, stream_.get(), slots_.front()));
    lock.lock();
  }
  changed_.wait(lock, [this] { return ended_ == pieces_.size(); });
  pieces_.clear();
  taken_ = ended_ = 0;
  return error_ == cudaSuccess ? Status(Done{}) : Status(cuda_error("uploading weights", error_));
}

Status WeightUploads::finish() {
  if (auto settled = settle(); !settled) return settled;
  return stream_.wait();
}

}  // namespace fovea
