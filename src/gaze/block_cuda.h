// SPDX-License-Identifier: Apache-2.0
// What the threads of a block decide together: the best of all candidates, sums, and places in a
// list. Each takes one barrier.
#pragma once

#include <climits>
#include <cstdint>

#include "device/cuda/kernel.h"

namespace fovea {

inline constexpr int kNoCell = INT_MAX;
inline constexpr int kMaxWarps = 32;

// A candidate: its worth in 96 bits, then the earlier index. kNoCell with a worth of 0 is none.
struct Candidate {
  uint64_t rest;
  uint32_t top;  // the bits above `rest`
  int index;

  __device__ bool beats(const Candidate& other) const {
    if (top != other.top) return top > other.top;
    return rest != other.rest ? rest > other.rest : index < other.index;
  }
};

__device__ inline Candidate no_candidate() { return {0, 0, kNoCell}; }

__device__ inline uint32_t largest_in_warp(uint32_t value) {
#if defined(FOVEA_EMULATE) || __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
  for (int lane = 16; lane > 0; lane /= 2)
    value = max(value, __shfl_xor_sync(kAllLanes, value, lane));
  return value;
#endif
}
__device__ inline int smallest_in_warp(int value) {
#if defined(FOVEA_EMULATE) || __CUDA_ARCH__ >= 800
  return __reduce_min_sync(kAllLanes, value);
#else
  for (int lane = 16; lane > 0; lane /= 2)
    value = min(value, __shfl_xor_sync(kAllLanes, value, lane));
  return value;
#endif
}
__device__ inline int sum_in_warp(int value) {
#if defined(FOVEA_EMULATE) || __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, value);
#else
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(kAllLanes, value, lane);
  return value;
#endif
}

// 32 bits at a time, since the hardware finds the largest of 32 lanes in one instruction.
__device__ inline Candidate best_in_warp(const Candidate& mine) {
  Candidate best{};
  best.top = largest_in_warp(mine.top);
  bool equal = mine.top == best.top;
  const auto high = static_cast<uint32_t>(mine.rest >> 32);
  const auto low = static_cast<uint32_t>(mine.rest);
  const uint32_t best_high = largest_in_warp(equal ? high : 0);
  equal = equal && high == best_high;
  const uint32_t best_low = largest_in_warp(equal ? low : 0);
  equal = equal && low == best_low;
  best.rest = uint64_t{best_high} << 32 | best_low;
  best.index = smallest_in_warp(equal ? mine.index : kNoCell);
  return best;
}

struct BlockParts {
  Candidate best[2][kMaxWarps];
  int sums[2][kMaxWarps];
};

// All threads of the block call the same functions in the same order. Two sets of parts take turns:
// who writes a set again has passed the barrier of the other, behind which nobody reads the first.
class BlockTeam {
 public:
  __device__ explicit BlockTeam(BlockParts& parts) : parts_(&parts) {}

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  __device__ static int lane() { return thread() % 32; }
  __device__ static int warp() { return thread() / 32; }
  __device__ static int warps() { return threads() / 32; }

  __device__ Candidate best(const Candidate& mine) {
    Candidate* parts = parts_->best[turn()];
    const Candidate of_warp = best_in_warp(mine);
    if (warps() == 1) return of_warp;
    if (lane() == 0) parts[warp()] = of_warp;
    __syncthreads();
    return best_in_warp(lane() < warps() ? parts[lane()] : no_candidate());
  }

  __device__ int sum(int mine) {
    int* parts = parts_->sums[turn()];
    const int of_warp = sum_in_warp(mine);
    if (lane() == 0) parts[warp()] = of_warp;
    __syncthreads();
    return sum_in_warp(lane() < warps() ? parts[lane()] : 0);
  }

  // The sum of what the threads before this one gave; `total` is that of all.
  __device__ int sum_before(int mine, int& total) {
    int* parts = parts_->sums[turn()];
    const int up_to = sum_up_to(mine);
    if (lane() == 31) parts[warp()] = up_to;
    __syncthreads();
    const int warps_up_to = sum_up_to(lane() < warps() ? parts[lane()] : 0);
    total = __shfl_sync(kAllLanes, warps_up_to, 31);
    const int before = __shfl_sync(kAllLanes, warps_up_to, max(warp() - 1, 0));
    return up_to - mine + (warp() > 0 ? before : 0);
  }

 private:
  __device__ static int sum_up_to(int value) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_up_sync(kAllLanes, value, step);
      if (lane() >= step) value += before;
    }
    return value;
  }
  __device__ int turn() { return turn_ ^= 1; }

  BlockParts* parts_;
  int turn_ = 0;
};

}  // namespace fovea
