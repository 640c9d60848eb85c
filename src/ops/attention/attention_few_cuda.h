// SPDX-License-Identifier: Apache-2.0
// What the kernels for few queries share: a row of kLanes lanes takes a key, kVec values a lane,
// and what lanes, groups of them and warps have seen becomes one. Sums are f32.
#pragma once

#include "ops/attention/attention_parts_cuda.h"

namespace fovea {

template <int kVec>
struct alignas(2 * kVec) PackedValues {
  uint32_t pair[kVec / 2];
};

// In the order of the program: a compiler that saves registers would ask for values one by one.
template <int kVec>
__device__ PackedValues<kVec> load_packed(const bf16* from) {
  PackedValues<kVec> to;
#if defined(__CUDA_ARCH__)
  if constexpr (kVec == 8)
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.pair[0]), "=r"(to.pair[1]), "=r"(to.pair[2]), "=r"(to.pair[3])
                 : "l"(from));
  else
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to.pair[0]), "=r"(to.pair[1])
                 : "l"(from));
#else
  to = *reinterpret_cast<const PackedValues<kVec>*>(from);
#endif
  return to;
}
// The same; zeros where it is not wanted.
__device__ inline PackedValues<8> load_wanted(const bf16* from, bool wanted) {
  PackedValues<8> to{};
#if defined(__CUDA_ARCH__)
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %5, 0;\n"
      "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "+r"(to.pair[0]), "+r"(to.pair[1]), "+r"(to.pair[2]), "+r"(to.pair[3])
      : "l"(from), "r"(static_cast<int>(wanted)));
#else
  if (wanted) to = *reinterpret_cast<const PackedValues<8>*>(from);
#endif
  return to;
}

// This lane's part of q . k; all lanes of a warp call it, and those of a row get the whole.
template <int kLanes, int kVec>
__device__ float dot_of_row(const PackedValues<kVec>& q, const PackedValues<kVec>& key) {
  float dot = 0;
#pragma unroll
  for (int i = 0; i < kVec / 2; ++i) {
    dot += first_of(q.pair[i]) * first_of(key.pair[i]);
    dot += second_of(q.pair[i]) * second_of(key.pair[i]);
  }
#pragma unroll
  for (int other = 1; other < kLanes; other *= 2) dot += __shfl_xor_sync(kAllLanes, dot, other);
  return dot;
}

template <int kWarps, int kRows, int kDims>
struct FewShared {
  float sums[kWarps][kRows][kDims];
  float largest[kWarps][kRows];
  float total[kWarps][kRows];
};

// What a row of lanes knows of its keys: each lane the sums of its kVec values.
template <int kRows, int kVec>
struct RowSums {
  float largest[kRows];
  float total[kRows];
  float sums[kRows][kVec];

  __device__ void clear() {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      largest[row] = minus_infinity();
      total[row] = 0;
#pragma unroll
      for (int i = 0; i < kVec; ++i) sums[row][i] = 0;
    }
  }

  template <int kSteps>
  __device__ void add(int row, const float (&scores)[kSteps],
                      const PackedValues<kVec> (&values)[kSteps]) {
    float most = largest[row];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) most = fmaxf(most, scores[step]);
    if (most == minus_infinity()) return;
    const float share = fast_exp2(largest[row] - most);
    largest[row] = most;
    total[row] *= share;
#pragma unroll
    for (int i = 0; i < kVec; ++i) sums[row][i] *= share;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float weight = fast_exp2(scores[step] - most);
      total[row] += weight;
#pragma unroll
      for (int i = 0; i < kVec / 2; ++i) {
        sums[row][2 * i] += weight * first_of(values[step].pair[i]);
        sums[row][2 * i + 1] += weight * second_of(values[step].pair[i]);
      }
    }
  }

  // The rows of lanes of a warp become one, each warp's in shared memory.
  template <int kLanes, class Shared>
  __device__ void join(Shared& shared) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      float most = largest[row];
#pragma unroll
      for (int other = kLanes; other < 32; other *= 2)
        most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, other));
      const float share = largest[row] == most ? (most == minus_infinity() ? 0.0f : 1.0f)
                                               : fast_exp2(largest[row] - most);
      float all = total[row] * share;
#pragma unroll
      for (int other = kLanes; other < 32; other *= 2)
        all += __shfl_xor_sync(kAllLanes, all, other);
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        float sum = sums[row][i] * share;
#pragma unroll
        for (int other = kLanes; other < 32; other *= 2)
          sum += __shfl_xor_sync(kAllLanes, sum, other);
        if (lane < kLanes) shared.sums[warp][row][lane * kVec + i] = sum;
      }
      if (lane == 0) {
        shared.largest[warp][row] = most;
        shared.total[warp][row] = all;
      }
    }
    __syncthreads();
  }
};

// Two neighbours of a row from those of the warps: their sums, not yet divided.
struct JoinedPair {
  float largest;
  float total;
  float2 sum;
};
template <int kWarps, int kRows, int kDims>
__device__ JoinedPair join_warps(const FewShared<kWarps, kRows, kDims>& shared, int row, int dim) {
  JoinedPair joined{minus_infinity(), 0, {0, 0}};
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp)
    joined.largest = fmaxf(joined.largest, shared.largest[warp][row]);
  if (joined.largest == minus_infinity()) return joined;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const float share = fast_exp2(shared.largest[warp][row] - joined.largest);
    const float2 sum = *reinterpret_cast<const float2*>(&shared.sums[warp][row][dim]);
    joined.total += shared.total[warp][row] * share;
    joined.sum.x += sum.x * share;
    joined.sum.y += sum.y * share;
  }
  return joined;
}

}  // namespace fovea
