// SPDX-License-Identifier: Apache-2.0
// bfloat16 on the device: the upper half of a float. Arithmetic is done in f32.
#pragma once

#include "device/cuda/runtime.h"

namespace fovea {

struct bf16 {
  uint16_t bits;
};
// Two of them as one word, the first in the lower half.
struct alignas(4) bf16x2 {
  uint32_t bits;
};
// Eight: what one thread reads or writes at once.
struct alignas(16) bf16x8 {
  uint32_t pair[4];
};

__host__ __device__ inline float as_float(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  union {
    uint32_t from;
    float to;
  } both{bits};
  return both.to;
#endif
}
__host__ __device__ inline uint32_t as_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  union {
    float from;
    uint32_t to;
  } both{value};
  return both.to;
#endif
}

__host__ __device__ inline float to_float(bf16 value) {
  return as_float(uint32_t{value.bits} << 16);
}
__host__ __device__ inline float first_of(uint32_t pair) { return as_float(pair << 16); }
__host__ __device__ inline float second_of(uint32_t pair) { return as_float(pair & 0xFFFF0000u); }

// Rounds to nearest, halves to even; NaN stays NaN.
__host__ __device__ inline bf16 to_bf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {bits};
#else
  const uint32_t bits = as_bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {0x7FFF};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
#endif
}
__host__ __device__ inline uint32_t to_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  return bits;
#else
  return uint32_t{to_bf16(first).bits} | uint32_t{to_bf16(second).bits} << 16;
#endif
}

}  // namespace fovea
