// SPDX-License-Identifier: Apache-2.0
// Lightness of 8-bit RGB pixels as luma.h has it, four pixels at a time.
#pragma once

#include "device/cuda/kernel.h"
#include "relevance/luma.h"

namespace fovea {

// 256 times the lightness of four pixels, plus what rounds it: three words hold R G B R, G B R G,
// B R G B, lowest byte first.
struct FourLumas {
  unsigned value[4];
};

__device__ inline FourLumas lumas_of(unsigned first, unsigned second, unsigned third) {
  constexpr unsigned kRed = kLumaRed;
  constexpr unsigned kGreen = kLumaGreen;
  constexpr unsigned kBlue = kLumaBlue;
  constexpr unsigned kHalf = 128;
  return {{__dp4a(first, kRed | kGreen << 8 | kBlue << 16, kHalf),
           __dp4a(first, kRed << 24, __dp4a(second, kGreen | kBlue << 8, kHalf)),
           __dp4a(second, kRed << 16 | kGreen << 24, __dp4a(third, kBlue, kHalf)),
           __dp4a(third, kRed << 8 | kGreen << 16 | kBlue << 24, kHalf)}};
}

// The lightness of four pixels as four bytes.
__device__ inline unsigned luma_bytes(const FourLumas& lumas) {
  const unsigned low = __byte_perm(lumas.value[0], lumas.value[1], 0x0051);
  const unsigned high = __byte_perm(lumas.value[2], lumas.value[3], 0x0051);
  return __byte_perm(low, high, 0x5410);
}

__device__ inline unsigned luma_at(const uint8_t* rgb) {
  return (kLumaRed * rgb[0] + kLumaGreen * rgb[1] + kLumaBlue * rgb[2] + 128U) >> 8;
}

}  // namespace fovea
