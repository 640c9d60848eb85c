// SPDX-License-Identifier: Apache-2.0
// Blocks that run at the same time and read each other's dynamic shared memory, from sm_90 on; see
// LaunchShape::cluster. Before that each block is a cluster of its own.
#pragma once

#include "device/cuda/kernel.h"

namespace fovea {

#if defined(FOVEA_EMULATE)

inline int rank_in_cluster() { return emulate::cluster_rank(); }
inline void sync_cluster() { emulate::sync_cluster(); }
inline void begin_cluster() {}
inline void wait_for_cluster() { emulate::sync_cluster(); }
inline void leave_cluster() { emulate::sync_cluster(); }
inline float4 load_of_rank(const float4* mine, int rank) {
  const auto at = reinterpret_cast<const unsigned char*>(mine) - emulate::shared_memory();
  return *reinterpret_cast<const float4*>(emulate::shared_of(rank) + at);
}
template <class T>
void store_at_rank(T* mine, int rank, T value) {
  const auto at = reinterpret_cast<unsigned char*>(mine) - emulate::shared_memory();
  *reinterpret_cast<T*>(emulate::shared_of(rank) + at) = value;
}

#else

// Of this block, from 0.
__device__ inline int rank_in_cluster() {
#if __CUDA_ARCH__ >= 900
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// All threads of all blocks meet; what they wrote to shared memory is there for all.
__device__ inline void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#else
  __syncthreads();
#endif
}

// All threads call the first where they begin and the second before a block writes to the memory of
// others: those have begun.
__device__ inline void begin_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ inline void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// At the end of a block whose memory others read: they have. Waits for no writes.
__device__ inline void leave_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
#endif
}

// What block `rank` has where this block has `mine`.
__device__ inline float4 load_of_rank(const float4* mine, int rank) {
#if __CUDA_ARCH__ >= 900
  float4 value;
  asm volatile(
      "{\n"
      ".reg .u32 place;\n"
      "mapa.shared::cluster.u32 place, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [place];\n"
      "}\n"
      : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(mine))), "r"(rank)
      : "memory");
  return value;
#else
  return *mine;
#endif
}

// Writes where block `rank` has what this block has at `mine`. It is there after sync_cluster().
__device__ inline void store_at_rank(float2* mine, int rank, float2 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 place;\n"
      "mapa.shared::cluster.u32 place, %0, %1;\n"
      "st.shared::cluster.v2.f32 [place], {%2, %3};\n"
      "}\n" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(mine))),
      "r"(rank), "f"(value.x), "f"(value.y)
      : "memory");
#else
  *mine = value;
#endif
}
__device__ inline void store_at_rank(uint2* mine, int rank, uint2 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 place;\n"
      "mapa.shared::cluster.u32 place, %0, %1;\n"
      "st.shared::cluster.v2.u32 [place], {%2, %3};\n"
      "}\n" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(mine))),
      "r"(rank), "r"(value.x), "r"(value.y)
      : "memory");
#else
  *mine = value;
#endif
}

#endif

}  // namespace fovea
