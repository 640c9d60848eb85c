// SPDX-License-Identifier: Apache-2.0
// Loads of data that is read once, and hints of what will be read next.
#pragma once

#include "device/cuda/kernel.h"

namespace fovea {

// 16 bytes that nothing writes while the kernel runs and that are read once: they take no room in
// L1. Zero where `wanted` does not hold. The load is issued where it stands in the program, so that
// several are in flight before the first is used.
__device__ __forceinline__ uint4 load_once(const void* from, bool wanted) {
#if defined(FOVEA_EMULATE)
  return wanted ? *static_cast<const uint4*>(from) : uint4{};
#else
  uint4 value;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %5, 0;\n"
      "mov.b32 %0, 0;\n"
      "mov.b32 %1, 0;\n"
      "mov.b32 %2, 0;\n"
      "mov.b32 %3, 0;\n"
      "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(from), "r"(static_cast<int>(wanted)));
  return value;
#endif
}

// The line that holds `from` will be read soon.
__device__ __forceinline__ void prefetch_line([[maybe_unused]] const void* from) {
#if !defined(FOVEA_EMULATE)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}

inline constexpr int kLineBytes = 128;

// This block's share of `bytes` that a later kernel reads: it comes into L2 while this one and
// those between them leave the memory idle. `data` is aligned to 16 bytes.
__device__ inline void prefetch_share(const void* data, int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
#if !defined(FOVEA_EMULATE) && __CUDA_ARCH__ >= 900
  if (threadIdx.x != 0 || data == nullptr) return;
  const int64_t share =
      ceil_div(ceil_div(bytes, int64_t{gridDim.x}), int64_t{kLineBytes}) * kLineBytes;
  const int64_t begin = share * blockIdx.x;
  const int64_t count = (begin + share < bytes ? share : bytes - begin) / 16 * 16;
  if (count <= 0) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from + begin),
               "r"(static_cast<uint32_t>(count)));
#else
  if (data == nullptr) return;
  const int64_t step = int64_t{gridDim.x} * blockDim.x * kLineBytes;
  for (int64_t at = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kLineBytes; at < bytes;
       at += step)
    prefetch_line(from + at);
#endif
}

}  // namespace fovea
