// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share on the device: where rows and keys lie, and how the parts of
// several blocks become one result.
#pragma once

#include "device/cuda/kernel.h"
#include "ops/attention/attention_kernels_cuda.h"

namespace fovea {

__device__ inline float fast_exp2(float x) {
#if defined(FOVEA_EMULATE)
  return std::exp2(x);
#elif defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x;
#endif
}
__device__ inline float minus_infinity() { return as_float(0xFF800000u); }

// All of it at once: loads do not move behind the barrier, where each would be waited for.
__device__ inline AttentionSequence read_sequence(const AttentionCall& call) {
  const AttentionSequence sequence = call.sequences[blockIdx.z];
  __syncwarp();
  return sequence;
}

__device__ inline int64_t offset_of_row(const AttentionCall& call,
                                        const AttentionSequence& sequence, int kv_head, int row,
                                        int64_t stride) {
  const int query = row / call.group;
  const int head = kv_head * call.group + row - query * call.group;
  return (sequence.q_begin + query) * stride + int64_t{head} * call.head_dim;
}
__device__ inline int keys_of_row(const AttentionCall& call, const AttentionSequence& sequence,
                                  int row) {
  return call.causal ? min(sequence.key_count, sequence.first_query + row / call.group + 1)
                     : sequence.key_count;
}
__device__ inline int64_t offset_of_head(const AttentionCall& call,
                                         const AttentionSequence& sequence, int kv_head) {
  return (int64_t{call.layer} * call.kv_heads + kv_head) * sequence.capacity * call.head_dim;
}

// The keys that one of the blocks that share `keys` keys reads.
struct KeyPart {
  int begin;
  int end;     // not above begin: the block has nothing to do
  int active;  // blocks that have something to do
};
template <SplitRule kRule>
__device__ KeyPart part_of_keys(int keys, int splits, int split) {
  const int even = max(ceil_div(keys, splits), kRule.least);
  const int each =
      keys <= kRule.whole ? max(keys, 1) : ceil_div(even, kRule.granule) * kRule.granule;
  return {split * each, min(keys, (split + 1) * each), max(1, ceil_div(keys, each))};
}

// Where part `split` of a slot lies.
struct PartPlace {
  float* sums;     // [rows][dims]
  float* weights;  // [rows][2]: the largest score, the sum of weights
};
__device__ inline PartPlace place_of_part(const AttentionCall& call, int slots, int slot, int split,
                                          int rows, int dims) {
  const int64_t part = int64_t{slot} * call.splits + split;
  float* weights = call.parts + int64_t{slots} * call.splits * rows * dims;
  return {call.parts + part * rows * dims, weights + part * rows * 2};
}

// Counts to `last` and then from 0 again. What this thread wrote or saw written before, who counts
// after it sees.
__device__ inline unsigned count_in_order(unsigned* count, unsigned last) {
#if defined(__CUDA_ARCH__)
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(count), "r"(last)
               : "memory");
  return before;
#else
  return atomicInc(count, last);
#endif
}

// Whether this block is the last of the slot's that comes here; then it sees what all wrote.
__device__ inline bool ends_last(unsigned* done, int active) {
  __shared__ unsigned before;
  __syncthreads();
  if (threadIdx.x == 0) before = count_in_order(done, static_cast<unsigned>(active - 1));
  __syncthreads();
  return before == static_cast<unsigned>(active - 1);
}

// Calls store(row, dim, four values) for all rows [0, count) of a slot. `shared` holds rows x
// kMostSplits values.
template <class Store>
__device__ void combine_parts(const AttentionCall& call, int slots, int slot, int rows, int dims,
                              int count, int active, float* shared, const Store& store) {
  const PartPlace first = place_of_part(call, slots, slot, 0, rows, dims);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32;
#pragma unroll 4
  for (int row = thread / 32; row < count; row += threads / 32) {
    const float* weights = first.weights + (int64_t{lane} * rows + row) * 2;
    const float largest = lane < active ? __ldcg(weights) : minus_infinity();
    const float sum = lane < active ? __ldcg(weights + 1) : 0.0f;
    const float share = fast_exp2(largest - warp_max(largest));
    shared[row * kMostSplits + lane] = share / warp_sum(sum * share);
  }
  __syncthreads();
  const int quads = ceil_div(call.head_dim, 4);
  for (int item = thread; item < count * quads; item += threads) {
    const int row = item / quads;
    const int dim = (item - row * quads) * 4;
    const float* from = first.sums + int64_t{row} * dims + dim;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int split = 0; split < active; ++split) {
      const float4 part =
          __ldcg(reinterpret_cast<const float4*>(from + int64_t{split} * rows * dims));
      const float share = shared[row * kMostSplits + split];
      sum.x += share * part.x;
      sum.y += share * part.y;
      sum.z += share * part.z;
      sum.w += share * part.w;
    }
    store(row, dim, sum);
  }
}

// As combine_parts, into the rows [row_begin, row_begin + count) of the output.
__device__ inline void write_combined(const AttentionCall& call, const AttentionSequence& sequence,
                                      int kv_head, int slots, int slot, int rows, int dims,
                                      int row_begin, int count, int active, float* shared) {
  combine_parts(
      call, slots, slot, rows, dims, count, active, shared,
      [&](int row, int dim, const float4& sum) {
        bf16* to = call.out + dim +
                   offset_of_row(call, sequence, kv_head, row_begin + row, call.out_stride);
        *reinterpret_cast<uint2*>(to) = make_uint2(to_pair(sum.x, sum.y), to_pair(sum.z, sum.w));
      });
}

}  // namespace fovea
