// SPDX-License-Identifier: Apache-2.0
// Rows of bf16 become rows of e4m3: rotated by their positions, spread over the head by a Hadamard
// matrix, scaled so that the largest of a head, or of all, becomes 448, and rounded.
//   y = H rotate(x) / sqrt(128), scale = max |y| / 448, to = e4m3(y / scale)
// A warp has a row of a head, a lane 4 of its values. Two kernels: the first finds the largest, the
// second rounds. Arithmetic is f32.
#include "device/cuda/kernel.h"
#include "ops/attention/eight/attention_eight_cuda.h"
#include "ops/attention/eight/eight_bits.h"

namespace fovea {
namespace {

constexpr int kDim = 128;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kValueRows = 64;  // of a block that transposes
constexpr int kGroupRows = 16;

__device__ float4 exchanged(const float4& x, int lanes) {
  return make_float4(__shfl_xor_sync(kAllLanes, x.x, lanes), __shfl_xor_sync(kAllLanes, x.y, lanes),
                     __shfl_xor_sync(kAllLanes, x.z, lanes),
                     __shfl_xor_sync(kAllLanes, x.w, lanes));
}

// Four values of a row of a head, as they will be rounded.
__device__ float4 prepared(const EightRows& rows, int row, int head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bf16* from = rows.from + row * rows.stride + head * kDim + lane * 4;
  const uint2 pairs = *reinterpret_cast<const uint2*>(from);
  float4 x =
      make_float4(first_of(pairs.x), second_of(pairs.x), first_of(pairs.y), second_of(pairs.y));
  if (rows.cos != nullptr) {
    const float4 other = exchanged(x, 16);
    const int at = row * (kDim / 2) + lane % 16 * 4;
    const float4 cos = *reinterpret_cast<const float4*>(rows.cos + at);
    const float4 sin = *reinterpret_cast<const float4*>(rows.sin + at);
    const float sign = lane < 16 ? -1.0f : 1.0f;
    x = make_float4(x.x * cos.x + sign * other.x * sin.x, x.y * cos.y + sign * other.y * sin.y,
                    x.z * cos.z + sign * other.z * sin.z, x.w * cos.w + sign * other.w * sin.w);
  }
  if (!rows.spread) return x;
  x = make_float4(x.x + x.y, x.x - x.y, x.z + x.w, x.z - x.w);
  x = make_float4(x.x + x.z, x.y + x.w, x.x - x.z, x.y - x.w);
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const float4 other = exchanged(x, lanes);
    const float sign = (lane & lanes) != 0 ? -1.0f : 1.0f;
    x = make_float4(other.x + sign * x.x, other.y + sign * x.y, other.z + sign * x.z,
                    other.w + sign * x.w);
  }
  constexpr float kRoot = 0.0883883476483184f;  // 1 / sqrt(128)
  return make_float4(x.x * kRoot, x.y * kRoot, x.z * kRoot, x.w * kRoot);
}

// Scales are the largest values, until they are rounded by.
__device__ float* largest_of(const EightRows& rows, int head) {
  return rows.scales + (rows.per_head ? head : 0);
}
__device__ float per_step(float largest) { return largest > 0 ? kLargestEight / largest : 0; }

__global__ void __launch_bounds__(kThreads) find_largest(const EightRows rows) {
  const int head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  float largest = 0;
  for (int row = warp; row < rows.rows; row += warps) {
    const float4 x = prepared(rows, row, head);
    largest = fmaxf(largest, fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w))));
  }
  largest = warp_max(largest);
  // Bits of floats that are not negative rise as they do.
  if (threadIdx.x % 32 == 0 && largest > 0)
    atomicMax(reinterpret_cast<unsigned*>(largest_of(rows, head)), as_bits(largest));
}

__global__ void __launch_bounds__(kThreads) round_rows(const EightRows rows) {
  const int head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  const float by = per_step(*largest_of(rows, head));
  for (int row = warp; row < rows.rows; row += warps) {
    const float4 x = prepared(rows, row, head);
    uint8_t* to = rows.to + (head * rows.to_rows + rows.to_begin + row) * kDim +
                  static_cast<int>(threadIdx.x) % 32 * 4;
    *reinterpret_cast<uint32_t*>(to) =
        to_eight_pair(x.x * by, x.y * by) | to_eight_pair(x.z * by, x.w * by) << 16;
  }
}

// A thread has 16 rows of a column.
__global__ void __launch_bounds__(kThreads) round_values(const EightRows rows) {
  __shared__ uint8_t bytes[kValueRows][kDim + 4];
  const int head = static_cast<int>(blockIdx.y);
  const int begin = static_cast<int>(blockIdx.x) * kValueRows;
  const int thread = static_cast<int>(threadIdx.x);
  const float by = per_step(*largest_of(rows, head));
  for (int i = thread / 32; i < kValueRows; i += kWarps) {
    const int row = begin + i;
    uint32_t word = 0;
    if (row < rows.rows) {
      const float4 x = prepared(rows, row, head);
      word = to_eight_pair(x.x * by, x.y * by) | to_eight_pair(x.z * by, x.w * by) << 16;
    }
    *reinterpret_cast<uint32_t*>(&bytes[i][thread % 32 * 4]) = word;
  }
  __syncthreads();
  const int groups =
      min(kValueRows, ceil_div(rows.rows - begin, kGroupRows) * kGroupRows) / kGroupRows;
  for (int item = thread; item < kDim * groups; item += kThreads) {
    const int group = item % groups;
    const int column = item / groups;
    uint32_t words[4] = {};
#pragma unroll
    for (int place = 0; place < kGroupRows; ++place)
      words[place / 4] |= uint32_t{bytes[group * kGroupRows + eight_row_of(place)][column]}
                          << 8 * (place % 4);
    uint8_t* to = rows.to + (int64_t{head} * kDim + column) * rows.to_rows + rows.to_begin + begin +
                  group * kGroupRows;
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

__global__ void finish_scales(const EightRows rows) {
  const int head = static_cast<int>(threadIdx.x);
  const float largest = *largest_of(rows, head);
  __syncthreads();
  rows.scales[head] = largest / kLargestEight;
}

LaunchShape shape_of(cudaStream_t stream, const EightRows& rows, int rows_of_block) {
  return {.grid = dim3(static_cast<unsigned>(ceil_div(rows.rows, rows_of_block)),
                       static_cast<unsigned>(rows.heads)),
          .block = kThreads,
          .stream = stream};
}

constexpr int kRowsOfBlock = 4 * kWarps;

void begin_round(cudaStream_t stream, const EightRows& rows) {
  cudaMemsetAsync(rows.scales, 0, static_cast<size_t>(rows.heads) * sizeof(float), stream);
  launch(find_largest, shape_of(stream, rows, kRowsOfBlock), rows);
}
void end_round(cudaStream_t stream, const EightRows& rows) {
  launch(finish_scales, {.grid = 1, .block = static_cast<unsigned>(rows.heads), .stream = stream},
         rows);
}

}  // namespace

void round_rows_cuda(cudaStream_t stream, const EightRows& rows) {
  begin_round(stream, rows);
  launch(round_rows, shape_of(stream, rows, kRowsOfBlock), rows);
  end_round(stream, rows);
}

void round_values_cuda(cudaStream_t stream, const EightRows& rows) {
  begin_round(stream, rows);
  launch(round_values, shape_of(stream, rows, kValueRows), rows);
  end_round(stream, rows);
}

}  // namespace fovea
