// SPDX-License-Identifier: Apache-2.0
// Memory that is fetched before it is needed.
#pragma once

#include "device/cuda/kernel.h"

namespace fovea {

// 16 bytes of the device's memory into shared memory, past the registers where the device can.
// They are there after wait_for_fetched() and a barrier.
__device__ inline void fetch_16(void* shared, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(from)
               : "memory");
#else
  *static_cast<uint4*>(shared) = *static_cast<const uint4*>(from);
#endif
}
__device__ inline void wait_for_fetched() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace fovea
