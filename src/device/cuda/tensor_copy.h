// SPDX-License-Identifier: Apache-2.0
// Boxes of a tensor in global memory, copied to shared memory by the copy engine of sm_90, and the
// barriers that tell when they are there and when their place is free again. Not emulated.
#pragma once

#include <cuda.h>

#include <array>

#include "device/cuda/bf16.h"
#include "device/cuda/mma.h"
#include "fovea/result.h"

namespace fovea {

// A tensor of three dimensions, the first one's values side by side, and the box that one copy
// takes of it. What a box has beyond the tensor is 0.
struct TensorBox {
  const void* data = nullptr;        // aligned to 16 bytes
  std::array<uint64_t, 3> size{};    // in values
  std::array<uint64_t, 2> stride{};  // values from one to the next in dimensions 1 and 2,
                                     // in bytes multiples of 16
  std::array<uint32_t, 3> box{};     // a row of it, box[0], is 128, 64 or 32 bytes
  int value_bytes = 2;
};

// How a box lies in shared memory: rows of box[0] values one after the other, the 16-byte pieces of
// a row exchanged by its number, as warpgroup_multiply (warpgroup.h) reads them.
using TensorMap = CUtensorMap;

// Where a box of rows of 64 values begins.
inline constexpr size_t kTensorAlignment = 1024;

Result<TensorMap> tensor_map(const TensorBox& from);

// A phase of a barrier ends when its threads have arrived and the bytes that were promised are
// there. Phases are counted by turns: `parity` of the first is 0.
using SharedBarrier = uint64_t;

__device__ inline void make_barrier(SharedBarrier* barrier, int arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
#endif
}
// After the barriers are made, by the thread that made them; __syncthreads() comes after it.
__device__ inline void publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ inline void arrive(SharedBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
#endif
}
// As often as that.
__device__ inline void arrive(SharedBarrier* barrier, int times) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(times)
               : "memory");
#endif
}
// Arrives, and promises so many bytes of copies.
__device__ inline void arrive_and_promise(SharedBarrier* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}
__device__ inline void wait_for_phase(SharedBarrier* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "WAIT_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@!ended bra WAIT_%=;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// The box that begins at (x, y, z); its bytes were promised to the barrier. By one thread.
__device__ inline void copy_box(void* shared, const TensorMap& map, SharedBarrier* barrier, int x,
                                int y, int z) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
#endif
}

}  // namespace fovea
