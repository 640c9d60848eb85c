// SPDX-License-Identifier: Apache-2.0
// The host's side of a GPU: its memory, and the order of its work.
#pragma once

#include <string>
#include <utility>

#include "device/cuda/runtime.h"
#include "fovea/result.h"

namespace fovea {

inline Error cuda_error(const std::string& what, cudaError_t error) {
  return failed("CUDA: " + what + ": " + cudaGetErrorString(error));
}

// The stream whose order memory is taken and given back in, by the thread that has it: nothing then
// waits for the device, and what a size has left behind serves the next of that size. Without one,
// taking and giving back wait.
struct MemoryOrder {
  bool given = false;
  cudaStream_t stream = nullptr;
};
inline MemoryOrder& memory_order() {
  thread_local MemoryOrder order;
  return order;
}

// Why there is no device memory for `what`.
inline Error no_memory(const std::string& what) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  return failed("the GPU has no memory for " + what + ": " + std::to_string(free_bytes >> 20) +
                " of " + std::to_string(total_bytes >> 20) +
                " MiB are free; use a smaller model, image or budget");
}

// Memory of the device, without values until they are written.
template <class T>
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ == nullptr) return;
    if (order_.given)
      cudaFreeAsync(data_, order_.stream);
    else
      cudaFree(data_);
  }

  // What was there is lost. The error says how much was asked for, and how much is free.
  Status allocate(size_t count) {
    DeviceMemory().swap(*this);
    if (count == 0) return Done{};
    void* data = nullptr;
    order_ = memory_order();
    const cudaError_t error = order_.given
                                  ? cudaMallocAsync(&data, count * sizeof(T), order_.stream)
                                  : cudaMalloc(&data, count * sizeof(T));
    if (error != cudaSuccess) {
      cudaGetLastError();  // it does not stay: the process goes on
      return no_memory(std::to_string(count * sizeof(T) >> 20) + " MiB");
    }
    data_ = static_cast<T*>(data);
    size_ = count;
    return Done{};
  }
  // As allocate(), where there is less than `count`.
  Status at_least(size_t count) { return size_ >= count ? Status(Done{}) : allocate(count); }
  // As at_least(), with zeros in what is new: for memory that a library writes in ways that tools
  // which look for reads of what was never written do not see.
  Status zeros_at_least(size_t count) {
    if (size_ >= count) return Done{};
    if (Status made = allocate(count); !made) return made;
    cudaStream_t stream = memory_order().stream;
    cudaMemsetAsync(data_, 0, bytes(), stream);
    const cudaError_t error = cudaStreamSynchronize(stream);
    return error == cudaSuccess ? Status(Done{}) : cuda_error("clearing memory", error);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }
  void swap(DeviceMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(order_, other.order_);
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
  MemoryOrder order_;
};

// Memory of the host that the device copies from and to by itself.
template <class T>
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }

  Status at_least(size_t count) {
    if (size_ >= count) return Done{};
    if (data_ != nullptr) cudaFreeHost(data_);
    data_ = nullptr;
    size_ = 0;
    void* data = nullptr;
    if (const cudaError_t error = cudaHostAlloc(&data, count * sizeof(T), cudaHostAllocDefault);
        error != cudaSuccess) {
      cudaGetLastError();
      return cuda_error("pinned memory of " + std::to_string(count * sizeof(T)) + " bytes", error);
    }
    data_ = static_cast<T*>(data);
    size_ = count;
    return Done{};
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// Work in order. Errors of kernels and copies show when it is waited for.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (open_) cudaStreamDestroy(stream_);
  }

  Status open() {
    const cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    if (error != cudaSuccess) return cuda_error("a stream", error);
    open_ = true;
    return Done{};
  }
  Status wait() {
    cudaError_t error = cudaStreamSynchronize(stream_);
    if (error == cudaSuccess) error = cudaGetLastError();
    return error == cudaSuccess ? Status(Done{}) : Status(cuda_error("a computation", error));
  }

  template <class T>
  void upload(T* to, const T* from, size_t count) {
    cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyHostToDevice, stream_);
  }
  template <class T>
  void download(T* to, const T* from, size_t count) {
    cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDeviceToHost, stream_);
  }
  template <class T>
  void copy(T* to, const T* from, size_t count) {
    cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDeviceToDevice, stream_);
  }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  bool open_ = false;
};

}  // namespace fovea
