// SPDX-License-Identifier: Apache-2.0
// The mean query, key and value of each group of rows:
//   mean[h][g] = sum over rows of g of x[row][h] / rows of g.
//
// A block of threads takes a group of queries, keys or values (blockIdx.y), a thread 8 values of a
// head, row by row. Sums are f32, results are rounded to bf16.
#include "device/cuda/kernel.h"
#include "ops/attention/sparse/sparse_cuda.h"

namespace fovea {
namespace {

constexpr int kMeanThreads = 128;

__global__ void mean_groups(const __grid_constant__ SparseRows rows,
                            const __grid_constant__ GroupMeans means) {
  let_next_start();
  wait_for_previous();
  const int slot = static_cast<int>(blockIdx.x);
  const int slots = static_cast<int>(gridDim.x);
  const auto what = static_cast<int>(blockIdx.y);
  const RowSpan group = rows.groups[slot];
  const bf16* from = what == 0 ? rows.q : what == 1 ? rows.keys : rows.values;
  bf16* to = what == 0 ? means.queries : what == 1 ? means.keys : means.values;
  if (to == nullptr) return;
  const int64_t row_stride = what == 0 ? rows.q_stride : rows.head_dim;
  const int64_t head_stride = what == 0 ? rows.head_dim : int64_t{rows.capacity} * rows.head_dim;
  const int chunks = rows.head_dim / 8;
  const float share = 1 / static_cast<float>(group.count);
  for (int item = static_cast<int>(threadIdx.x); item < rows.heads * chunks;
       item += static_cast<int>(blockDim.x)) {
    const int head = item / chunks;
    const int at = (item - head * chunks) * 8;
    const bf16* first = from + group.first * row_stride + head * head_stride + at;
    float sums[8] = {};
#pragma unroll 8
    for (int row = 0; row < group.count; ++row) {
      const bf16x8 eight = *reinterpret_cast<const bf16x8*>(first + row * row_stride);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[2 * i] += first_of(eight.pair[i]);
        sums[2 * i + 1] += second_of(eight.pair[i]);
      }
    }
    bf16x8 mean;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      mean.pair[i] = to_pair(sums[2 * i] * share, sums[2 * i + 1] * share);
    *reinterpret_cast<bf16x8*>(to + (int64_t{head} * slots + slot) * rows.head_dim + at) = mean;
  }
}

}  // namespace

void mean_groups_cuda(cudaStream_t stream, const SparseRows& rows, const GroupMeans& means) {
  launch(mean_groups,
         {.grid = dim3(static_cast<unsigned>(rows.blocks * kGroupsOfBlock), 3),
          .block = kMeanThreads,
          .stream = stream,
          .overlaps = true},
         rows, means);
}

}  // namespace fovea
