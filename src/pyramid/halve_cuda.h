// SPDX-License-Identifier: Apache-2.0
// Halving on the device: the step that every level is made by.
#pragma once

#include "device/cuda/kernel.h"
#include "pyramid/device_pyramids.h"

namespace fovea {

// 12 bytes of two rows, four pixels of three channels, to the sums of their two 2x2 boxes plus 2, a
// quarter of them in each lane of 16 bits. What is shifted in above a lane's lower 8 bits belongs
// to the other lane.
__device__ inline void halve_four(const uint32_t* top, const uint32_t* bottom, uint32_t* lanes) {
  uint32_t even[3];  // lanes of 16 bits: columns 0 and 2 of each word
  uint32_t odd[3];   // columns 1 and 3
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    even[i] = (top[i] & 0x00FF00FFu) + (bottom[i] & 0x00FF00FFu);
    odd[i] = __byte_perm(top[i], 0, 0x4341) + __byte_perm(bottom[i], 0, 0x4341);
  }
  // Byte i of the 12 belongs to the box of byte i + 3: 0 1, 2 6 and 7 8 with 3 4, 5 9 and 10 11.
  constexpr uint32_t kHalf = 0x00020002;
  lanes[0] =
      (__byte_perm(even[0], odd[0], 0x5410) + __byte_perm(odd[0], even[1], 0x5432) + kHalf) >> 2;
  lanes[1] =
      (__byte_perm(even[0], even[1], 0x7632) + __byte_perm(odd[1], odd[2], 0x5410) + kHalf) >> 2;
  lanes[2] =
      (__byte_perm(odd[1], even[2], 0x5432) + __byte_perm(even[2], odd[2], 0x7632) + kHalf) >> 2;
}

// coarse[x] = (top[2x] + top[2x+1] + bottom[2x] + bottom[2x+1] + 2) >> 2 for 8 pixels of two rows,
// 24 bytes each, to 4 pixels. Sums of four bytes fit into 10 bits, so that two share a word.
__device__ inline void halve_eight(const uint32_t* top, const uint32_t* bottom, uint32_t* coarse) {
  uint32_t lanes[6];
  halve_four(top, bottom, lanes);
  halve_four(top + 3, bottom + 3, lanes + 3);
#pragma unroll
  for (int i = 0; i < 3; ++i) coarse[i] = __byte_perm(lanes[2 * i], lanes[2 * i + 1], 0x6420);
}

__host__ __device__ inline int side_at(int side_px, int level) {
  return (side_px + (1 << level) - 1) >> level;
}

// Makes the `group`-th four pixels of a row of `level` from the level before it, wherever they lie:
// a side of odd length repeats its last row or column. Reads past the nearest cache, which does not
// see what other blocks wrote.
__device__ inline void halve_group(const DevicePyramids& pyramids, int image, int level, int row,
                                   int group) {
  const int fine = level - 1;
  const int width = side_at(pyramids.canvas.width_px, fine);
  const int last_row = side_at(pyramids.canvas.height_px, fine) - 1;
  const uint8_t* from = pyramids.rgb[fine] + image * pyramids.image_bytes[fine];
  const uint8_t* top = from + 2 * row * pyramids.stride_bytes[fine];
  const uint8_t* bottom = from + min(2 * row + 1, last_row) * pyramids.stride_bytes[fine];
  uint8_t* to = pyramids.rgb[level] + image * pyramids.image_bytes[level] +
                row * pyramids.stride_bytes[level] + 12 * group;
  if (8 * group + 8 <= width) {
    uint2 a[3];
    uint2 b[3];
    uint32_t coarse[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      a[i] = __ldcg(reinterpret_cast<const uint2*>(top + 24 * group) + i);
      b[i] = __ldcg(reinterpret_cast<const uint2*>(bottom + 24 * group) + i);
    }
    const uint32_t above[6] = {a[0].x, a[0].y, a[1].x, a[1].y, a[2].x, a[2].y};
    const uint32_t below[6] = {b[0].x, b[0].y, b[1].x, b[1].y, b[2].x, b[2].y};
    halve_eight(above, below, coarse);
#pragma unroll
    for (int i = 0; i < 3; ++i) reinterpret_cast<uint32_t*>(to)[i] = coarse[i];
    return;
  }
  for (int x = 8 * group; x < width; x += 2) {
    const int right = min(x + 1, width - 1);
    for (int c = 0; c < 3; ++c) {
      const int sum = __ldcg(top + 3 * x + c) + __ldcg(top + 3 * right + c) +
                      __ldcg(bottom + 3 * x + c) + __ldcg(bottom + 3 * right + c);
      *to++ = static_cast<uint8_t>((sum + 2) >> 2);
    }
  }
}

}  // namespace fovea
