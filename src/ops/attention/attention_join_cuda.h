// SPDX-License-Identifier: Apache-2.0
// How the warps of a block that took different keys of the same rows become one result.
#pragma once

#include "ops/attention/attention_flash_warp_cuda.h"

namespace fovea {

// Of kKeyWarps warps for each 16 rows, through shared memory and in order: all share(), a barrier,
// all write(). The result is their sums over their weights.
template <int kDim, int kRowWarps, int kKeyWarps>
class KeyWarpsJoin {
 public:
  static constexpr int kRows = 16 * kRowWarps;
  static constexpr int kStride = kDim + 8;
  // Floats of [key warps][rows][largest, total], and of [key warps][rows][kStride].
  static constexpr int kWeights = kKeyWarps * kRows * 2;
  static constexpr int kSums = kKeyWarps * kRows * kStride;

  __device__ KeyWarpsJoin(float* weights, float* sums) : weights_(weights), sums_(sums) {}

  __device__ void share(const FlashWarp<kDim, 1, false>& warp, int key_warp) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp.row_of(0, half);
      if (warp.column() == 0)
        weight_of(key_warp, row) =
            make_float2(warp.state.largest[0][half] * warp.factor(), warp.state.total[0][half]);
      float* to = sums_of(key_warp, row) + warp.column();
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i)
        *reinterpret_cast<float2*>(to + i * 8) =
            make_float2(warp.state.sums[0][i][2 * half], warp.state.sums[0][i][2 * half + 1]);
    }
  }

  // The rows from row_begin of a sequence and key head.
  __device__ void write(const AttentionCall& call, const AttentionSequence& sequence, int kv_head,
                        int row_begin, int rows) const {
    constexpr int kChunks = kDim / 8;
#pragma unroll 1
    for (int item = static_cast<int>(threadIdx.x); item < rows * kChunks;
         item += 32 * kRowWarps * kKeyWarps) {
      const int row = item / kChunks;
      const int dim = item % kChunks * 8;
      if (dim >= call.head_dim) continue;
      float sums[8];
      combine(row, dim, sums);
      const int64_t at = offset_of_row(call, sequence, kv_head, row_begin + row, call.out_stride);
      *reinterpret_cast<uint4*>(call.out + at + dim) =
          make_uint4(to_pair(sums[0], sums[1]), to_pair(sums[2], sums[3]),
                     to_pair(sums[4], sums[5]), to_pair(sums[6], sums[7]));
    }
  }

 private:
  __device__ float* sums_of(int key_warp, int row) const {
    return sums_ + (key_warp * kRows + row) * kStride;
  }
  __device__ float2& weight_of(int key_warp, int row) const {
    return reinterpret_cast<float2*>(weights_)[key_warp * kRows + row];
  }

  // The results of 8 values of a row. Of 8 lanes, four read the later half of theirs first:
  // together they read all banks at once.
  __device__ void combine(int row, int dim, float (&sums)[8]) const {
    float2 weights[kKeyWarps];
    float largest = minus_infinity();
#pragma unroll
    for (int i = 0; i < kKeyWarps; ++i) {
      weights[i] = weight_of(i, row);
      largest = fmaxf(largest, weights[i].x);
    }
    const bool later_first = threadIdx.x / 4 % 2 != 0;
    float4 early = make_float4(0, 0, 0, 0);
    float4 late = make_float4(0, 0, 0, 0);
    float total = 0;
#pragma unroll
    for (int i = 0; i < kKeyWarps; ++i) {
      const float share = fast_exp2(weights[i].x - largest);
      const float* from = sums_of(i, row) + dim;
      add(*reinterpret_cast<const float4*>(from + (later_first ? 4 : 0)), share, early);
      add(*reinterpret_cast<const float4*>(from + (later_first ? 0 : 4)), share, late);
      total += weights[i].y * share;
    }
    const float inverse = 1.0f / total;
    put(later_first ? late : early, inverse, sums);
    put(later_first ? early : late, inverse, sums + 4);
  }
  __device__ static void add(const float4& values, float share, float4& to) {
    to.x += share * values.x;
    to.y += share * values.y;
    to.z += share * values.z;
    to.w += share * values.w;
  }
  __device__ static void put(const float4& values, float factor, float* to) {
    to[0] = values.x * factor;
    to[1] = values.y * factor;
    to[2] = values.z * factor;
    to[3] = values.w * factor;
  }

  float* weights_;
  float* sums_;
};

}  // namespace fovea
