// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's runtime that the host calls, on a CPU: device memory is the host's, and work
// is done when it is enqueued. For runtime.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
};
struct emulated_stream;
using cudaStream_t = emulated_stream*;
struct emulated_event;
using cudaEvent_t = emulated_event*;
struct cudaDeviceProp {
  char name[256] = "emulated GPU";
  size_t totalGlobalMem = size_t{1} << 34;
  int major = 7;
  int minor = 5;
  int multiProcessorCount = 4;
};
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaHostAllocDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;

cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
inline cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t /*stream*/) {
  return cudaMalloc(data, bytes);
}
inline cudaError_t cudaFreeAsync(void* data, cudaStream_t /*stream*/) { return cudaFree(data); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* data);
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                   cudaMemcpyKind /*kind*/, cudaStream_t /*stream*/) {
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                     size_t bytes, size_t rows, cudaMemcpyKind /*kind*/,
                                     cudaStream_t /*stream*/) {
  for (size_t i = 0; i < rows; ++i)
    std::memmove(static_cast<char*>(to) + i * to_pitch,
                 static_cast<const char*>(from) + i * from_pitch, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t /*stream*/) {
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/,
                                       unsigned /*flags*/ = 0) {
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "failed";
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/,
                                          int /*device*/) {
  *value = 64 << 10;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
