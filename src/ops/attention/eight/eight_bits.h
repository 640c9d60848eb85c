// SPDX-License-Identifier: Apache-2.0
// e4m3: a float of eight bits, of which three are of the fraction; up to 448, no infinity. On host
// and device.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define FOVEA_HOST_AND_DEVICE __host__ __device__
#else
#define FOVEA_HOST_AND_DEVICE
#endif

namespace fovea {

inline constexpr float kLargestEight = 448;

// Rounds to nearest, halves to even; what is larger becomes the largest, NaN stays NaN.
FOVEA_HOST_AND_DEVICE inline uint8_t to_eight(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7FFFFFFFu;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (size > 0x7F800000u) return 0x7F;
  uint32_t rounded = 0;
  if (size < 0x3C800000u) {  // below 2^-6: multiples of 2^-9, which the sum rounds to
    rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 16384.0f) & 0xF;
  } else {
    rounded = ((size + 0x7FFFF + (size >> 20 & 1)) >> 20) - (120u << 3);
    if (rounded > 0x7E) rounded = 0x7E;
  }
  return static_cast<uint8_t>(sign | rounded);
}
FOVEA_HOST_AND_DEVICE inline float of_eight(uint8_t value) {
  const uint32_t exponent = value >> 3 & 0xF;
  const uint32_t fraction = value & 7;
  if ((value & 0x7F) == 0x7F) return std::bit_cast<float>(uint32_t{0x7FC00000u});
  const float size = exponent == 0 ? static_cast<float>(fraction) / 512
                                   : std::bit_cast<float>((exponent + 120) << 23 | fraction << 20);
  return value >> 7 != 0 ? -size : size;
}
// Two, the first in the lower half of 16 bits.
FOVEA_HOST_AND_DEVICE inline uint32_t to_eight_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(second), "f"(first));
  return bits;
#else
  return uint32_t{to_eight(first)} | uint32_t{to_eight(second)} << 8;
#endif
}

}  // namespace fovea
