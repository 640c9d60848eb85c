// SPDX-License-Identifier: Apache-2.0
// What kernels are written with: CUDA, or the same dialect emulated on the CPU.
#pragma once

#include <utility>

#include "device/cuda/runtime.h"

namespace fovea {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  // The kernel may start while the one before it ends; it calls wait_for_previous() before it reads
  // what that one wrote. What a kernel after it may read is written before it ends, as ever.
  bool overlaps = false;
  // Blocks along x that run at the same time and see each other's shared memory (cluster.h): a
  // divisor of grid.x, at most 8; more than one from sm_90 on.
  int cluster = 1;
};

#if defined(FOVEA_EMULATE)

template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const LaunchShape& shape, Args&&... args) {
  emulate::run({shape.grid, shape.block, shape.cluster, shape.shared_bytes},
               [&] { kernel(Params(args)...); });
}

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulate::shared_memory());
}
inline void wait_for_previous() {
  if (emulate::previous_kernel) emulate::previous_kernel(true);
}
inline void let_next_start() {}

#else

// Lets a kernel have so much dynamic shared memory. The limit only grows: a graph may hold a launch
// that needs more than this one.
inline void allow_shared(const void* kernel, int bytes) {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
      attributes.maxDynamicSharedSizeBytes < bytes)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// An error stays with the device until Stream::wait() asks for it.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const LaunchShape& shape, Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (shape.overlaps) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
  }
  // More than 48 KB, with what kernels declare, has to be asked for.
  if (shape.shared_bytes > size_t{40} << 10)
    allow_shared(reinterpret_cast<const void*>(kernel), static_cast<int>(shape.shared_bytes));
  cudaLaunchKernelEx(&config, kernel, Params(std::forward<Args>(args))...);
}

template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char fovea_shared_memory[];
  return reinterpret_cast<T*>(fovea_shared_memory);
}

// Waits until everything before this kernel has been written.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

template <class T>
__host__ __device__ constexpr T ceil_div(T value, T by) {
  return (value + by - 1) / by;
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(kAllLanes, value, lane);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, lane));
  return value;
}

}  // namespace fovea
