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

// The line that holds `from` will be read soon. Emulated, the byte is read, so that an address out
// of bounds shows.
__device__ __forceinline__ void prefetch_line(const void* from) {
#if defined(FOVEA_EMULATE)
  static_cast<void>(*static_cast<const volatile uint8_t*>(from));
#else
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}

inline constexpr int kLineBytes = 128;

}  // namespace fovea
