// SPDX-License-Identifier: Apache-2.0
// Texture: 16 * the mean over a work pixel's fine pixels of their steps to four neighbours.
//
// A block owns 32x8 work pixels. It puts the lightness of their fine pixels, and of one more on
// each side, into shared memory as bytes, four to a word; then a thread makes one work pixel from
// sums of absolute differences of four bytes. Pixels that do not exist are masked away.
#include "base/check.h"
#include "device/cuda/kernel.h"
#include "relevance/luma_cuda.h"
#include "relevance/texture_cuda.h"

namespace fovea {
namespace {

constexpr int kWide = 32;
constexpr int kHigh = 8;
constexpr int kBlock = kWide * kHigh;

struct TextureJob {
  const uint8_t* rgb;
  int64_t stride_bytes, image_bytes;
  int fine_width, fine_height;
  int width, height;
  uint16_t* texture;
  unsigned long long* largest;
};

// Lightness of pixels x..x+3; those outside are the nearest inside.
__device__ unsigned read_lumas(const uint8_t* row, int x, int width) {
  if (x >= 0 && x + 4 <= width) {
    const auto* words = reinterpret_cast<const unsigned*>(row + 3 * x);
    return luma_bytes(lumas_of(__ldg(words), __ldg(words + 1), __ldg(words + 2)));
  }
  unsigned four = 0;
  for (int i = 0; i < 4; ++i) four |= luma_at(row + 3 * max(0, min(x + i, width - 1))) << 8 * i;
  return four;
}

// grid: work pixels / 32, work pixels / 8, images
template <int kFactor>
__global__ __launch_bounds__(kBlock) void measure(const TextureJob job) {
  constexpr int kWords = kWide * kFactor / 4 + 2;
  constexpr int kRows = kHigh * kFactor + 2;
  __shared__ unsigned luma[kRows][kWords];
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x);
  const auto image = static_cast<int64_t>(blockIdx.z);
  const int first_x = static_cast<int>(blockIdx.x) * kWide;
  const int first_y = static_cast<int>(blockIdx.y) * kHigh;
  const uint8_t* rgb = job.rgb + image * job.image_bytes;
  for (int i = thread; i < kRows * kWords; i += kBlock) {
    const int y = max(0, min(first_y * kFactor - 1 + i / kWords, job.fine_height - 1));
    luma[i / kWords][i % kWords] = read_lumas(
        rgb + y * job.stride_bytes, first_x * kFactor - 4 + i % kWords * 4, job.fine_width);
  }
  if (blockIdx.x == 0 && blockIdx.y == 0 && thread < kLargest)
    job.largest[image * kLargest + thread] = 0;
  __syncthreads();
  const int x = first_x + thread % kWide;
  const int y = first_y + thread / kWide;
  if (x >= job.width || y >= job.height) return;
  const int cols = min(kFactor, job.fine_width - x * kFactor);
  const int rows = min(kFactor, job.fine_height - y * kFactor);
  const int fine_x = thread % kWide * kFactor;
  const int word = fine_x / 4 + 1;
  const unsigned mask = (0xFFFFFFFFU >> (32 - 8 * cols)) << fine_x % 4 * 8;
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < kFactor; ++i) {
    const int row = thread / kWide * kFactor + i + 1;
    const unsigned here = luma[row][word];
    const unsigned left = __byte_perm(luma[row][word - 1], here, 0x6543);
    const unsigned right = __byte_perm(here, luma[row][word + 1], 0x4321);
    const unsigned counted = i < rows ? mask : 0;
    sum += __vsadu4(here & counted, left & counted) + __vsadu4(here & counted, right & counted) +
           __vsadu4(here & counted, luma[row - 1][word] & counted) +
           __vsadu4(here & counted, luma[row + 1][word] & counted);
  }
  job.texture[(image * job.height + y) * job.width + x] =
      static_cast<uint16_t>(16 * sum / static_cast<unsigned>(rows * cols));
}

}  // namespace

void measure_texture_cuda(cudaStream_t stream, const DevicePyramids& pyramids, int fine, int work,
                          uint16_t* texture, unsigned long long* largest) {
  FOVEA_CHECK(fine <= work && work <= fine + 2 && work < pyramids.levels);
  TextureJob job{};
  job.rgb = pyramids.rgb[fine];
  job.stride_bytes = pyramids.stride_bytes[fine];
  job.image_bytes = pyramids.image_bytes[fine];
  job.fine_width = ceil_div(pyramids.canvas.width_px, 1 << fine);
  job.fine_height = ceil_div(pyramids.canvas.height_px, 1 << fine);
  job.width = ceil_div(pyramids.canvas.width_px, 1 << work);
  job.height = ceil_div(pyramids.canvas.height_px, 1 << work);
  job.texture = texture;
  job.largest = largest;
  const auto kernel = work == fine ? measure<1> : work == fine + 1 ? measure<2> : measure<4>;
  launch(kernel,
         {.grid = {static_cast<unsigned>(ceil_div(job.width, kWide)),
                   static_cast<unsigned>(ceil_div(job.height, kHigh)),
                   static_cast<unsigned>(pyramids.images)},
          .block = kBlock,
          .stream = stream,
          .overlaps = true},
         job);
}

}  // namespace fovea
