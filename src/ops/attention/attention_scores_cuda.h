// SPDX-License-Identifier: Apache-2.0
// Scores without tensor cores, for any device: 64 rows by 32 keys in a block of 256 threads. Thread
// (y, x) = (thread / 16, thread % 16) takes the rows 4 y + [0, 4) and the keys x and x + 16, so
// that a row lies in 16 lanes of one warp. Values stay bf16 in shared memory and are read four at a
// time; rows are longer by 8 bytes, so that 16 keys lie in different banks.
#pragma once

#include "ops/attention/attention_parts_cuda.h"

namespace fovea {

inline constexpr int kScoreThreads = 256;
inline constexpr int kScoreRows = 64;
inline constexpr int kScoreKeys = 32;
inline constexpr int kRowsOfThread = 4;
inline constexpr int kKeysOfThread = 2;

// Copies `count` rows, given as row(i), with zeros from `there` on and beyond the head's values.
template <int kDims, int kCount, int kStride, class Row>
__device__ void copy_score_rows(bf16* shared, int there, int head_dim, const Row& row_at) {
  for (int item = static_cast<int>(threadIdx.x); item < kCount * kDims / 4; item += kScoreThreads) {
    const int row = item / (kDims / 4);
    const int dim = item % (kDims / 4) * 4;
    uint2 values = make_uint2(0, 0);
    if (row < there && dim < head_dim) values = *reinterpret_cast<const uint2*>(row_at(row) + dim);
    *reinterpret_cast<uint2*>(shared + row * kStride + dim) = values;
  }
}

using ScoreTile = float[kRowsOfThread][kKeysOfThread];

// scores[i][j] = scale * q[4 y + i] . keys[x + 16 j] + bias, in powers of 2; minus infinity for
// keys that a row does not see. The first of the keys is key `begin` of the sequence.
template <int kDims>
__device__ void score_rows(const AttentionCall& call, const AttentionSequence& sequence,
                           const bf16* q, const bf16* keys, const int (&seen)[kRowsOfThread],
                           int begin, ScoreTile& scores) {
  constexpr int kStride = kDims + 4;
  const int y = static_cast<int>(threadIdx.x) / 16;
  const int x = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) scores[i][0] = scores[i][1] = 0;
#pragma unroll 2
  for (int dim = 0; dim < call.head_dim; dim += 4) {
    uint2 k[kKeysOfThread];
#pragma unroll
    for (int j = 0; j < kKeysOfThread; ++j)
      k[j] = *reinterpret_cast<const uint2*>(keys + (x + 16 * j) * kStride + dim);
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const uint2 query =
          *reinterpret_cast<const uint2*>(q + (y * kRowsOfThread + i) * kStride + dim);
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        scores[i][j] += first_of(query.x) * first_of(k[j].x);
        scores[i][j] += second_of(query.x) * second_of(k[j].x);
        scores[i][j] += first_of(query.y) * first_of(k[j].y);
        scores[i][j] += second_of(query.y) * second_of(k[j].y);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kKeysOfThread; ++j) {
    const int key = begin + x + 16 * j;
    float bias = 0;
    if (sequence.key_bias != nullptr && key < sequence.key_count)
      bias = sequence.key_bias[key] * kLog2E;
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i)
      scores[i][j] = key < seen[i] ? scores[i][j] * call.scale + bias : minus_infinity();
  }
}

// Over the 16 lanes of a row.
__device__ inline float row_max(float value) {
#pragma unroll
  for (int lane = 8; lane > 0; lane /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, lane));
  return value;
}
__device__ inline float row_sum(float value) {
#pragma unroll
  for (int lane = 8; lane > 0; lane /= 2) value += __shfl_xor_sync(kAllLanes, value, lane);
  return value;
}

// The largest score and the sum of weights of a thread's rows, so far; add() maps scores
// to weights relative to the new largest score and tells what earlier sums must be multiplied by.
struct SoftmaxRows {
  float largest[kRowsOfThread];
  float total[kRowsOfThread];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      largest[i] = minus_infinity();
      total[i] = 0;
    }
  }
  __device__ void add(ScoreTile& scores, float (&share)[kRowsOfThread]) {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const float most = fmaxf(largest[i], row_max(fmaxf(scores[i][0], scores[i][1])));
      const float base = most == minus_infinity() ? 0.0f : most;
      share[i] = fast_exp2(largest[i] - base);
      largest[i] = most;
      scores[i][0] = fast_exp2(scores[i][0] - base);
      scores[i][1] = fast_exp2(scores[i][1] - base);
      total[i] = total[i] * share[i] + row_sum(scores[i][0] + scores[i][1]);
    }
  }
};

}  // namespace fovea
