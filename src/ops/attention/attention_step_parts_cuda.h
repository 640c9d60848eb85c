// SPDX-License-Identifier: Apache-2.0
// What the blocks of attention_step_cuda do with the new token, and with keys and values.
#pragma once

#include <type_traits>

#include "device/cuda/load.h"
#include "ops/attention/attention_few_cuda.h"
#include "ops/attention/attention_step_cuda.h"
#include "ops/rotary_parts_cuda.h"

namespace fovea {

inline constexpr int kStepVec = 8;
inline constexpr int kMostStepRows = 4;

struct StepCall {
  RotaryJob rotary;
  bf16* out;
  int64_t out_stride;
  float scale;  // times log2(e)
  int group;
  int part_keys;
  int splits;
  float* parts;    // [slots][splits][rows][dims], then [slots][splits][rows][2]
  unsigned* done;  // [slots]
};

template <int kWarps, int kRows, int kDims>
struct StepShared {
  alignas(16) FewShared<kWarps, kRows, kDims> warps;
  alignas(16) bf16 heads[kRows + 2][kDims];  // queries, then the new key and the new value
  alignas(16) float norms[2][kDims];         // of queries and keys
  float shares[kRows * kMostSplits];
  RowPlace place;  // as it was early
};

__device__ inline int64_t offset_of_keys(const StepCall& call, const RowPlace& place, int kv_head) {
  return (int64_t{call.rotary.layer} * call.rotary.kv_heads + kv_head) * place.capacity *
         call.rotary.head_dim;
}

// Head `head` of the block's row of qkv, by one warp.
template <int kLanes>
__device__ void rotate_head(const RotaryJob& job, int head, bool has_norm, bool rotates,
                            const float* weights, bf16* to) {
  const int i = static_cast<int>(threadIdx.x) % 32 * 4;
  const int half = job.head_dim / 2;
  const int64_t row = blockIdx.z;
  const HeadLoads loads = load_head(job, job.qkv + row * job.stride + int64_t{head} * job.head_dim,
                                    rotates, row, i, i < half);
  HeadPart part{four_of(loads.first), four_of(loads.second)};
  const float factor = factor_of(job, part, kLanes);
  if (i >= half) return;
  if (has_norm)
    part = normed(part, factor,
                  {*reinterpret_cast<const float4*>(weights + i),
                   *reinterpret_cast<const float4*>(weights + half + i)});
  if (rotates) part = rotated(part, loads.cos, loads.sin);
  write_four(to + i, part.first);
  write_four(to + half + i, part.second);
}

// Weights of the norms are there before the new token is.
template <class Shared>
__device__ void load_norms(const RotaryJob& job, Shared& shared) {
  const int i = static_cast<int>(threadIdx.x) * 4;
  if (i >= job.head_dim) return;
  const auto copy = [&](const float* from, float* to) {
    if (from != nullptr)
      *reinterpret_cast<float4*>(to + i) = __ldg(reinterpret_cast<const float4*>(from + i));
  };
  copy(job.q_norm, shared.norms[0]);
  copy(job.k_norm, shared.norms[1]);
}

// A warp each: the queries, the key and the value of the new token.
template <int kLanes, class Shared>
__device__ void rotate_token(const StepCall& call, int kv_head, Shared& shared) {
  const RotaryJob& job = call.rotary;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp > call.group + 1) return;
  const bool is_query = warp < call.group;
  const bool is_value = warp > call.group;
  const bool has_norm = !is_value && (is_query ? job.q_norm : job.k_norm) != nullptr;
  const int head =
      is_query ? kv_head * call.group + warp : job.heads + kv_head + (is_value ? job.kv_heads : 0);
  rotate_head<kLanes>(job, head, has_norm, !is_value, shared.norms[is_query ? 0 : 1],
                      shared.heads[warp]);
}

// Puts the new key and value to their place, 16 bytes a thread.
template <class Shared>
__device__ void write_token(const StepCall& call, int position, int kv_head, const Shared& shared) {
  const RowPlace& place = shared.place;
  const int chunks = call.rotary.head_dim / 8;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= 2 * chunks) return;
  const bool is_key = thread < chunks;
  const int at = (is_key ? thread : thread - chunks) * 8;
  bf16* to = (is_key ? place.keys : place.values) + at + offset_of_keys(call, place, kv_head) +
             int64_t{position} * call.rotary.head_dim;
  *reinterpret_cast<uint4*>(to) =
      *reinterpret_cast<const uint4*>(shared.heads[call.group + (is_key ? 0 : 1)] + at);
}

__device__ inline bf16* out_of(const StepCall& call, int row) {
  return call.out + blockIdx.z * call.out_stride +
         static_cast<int64_t>(blockIdx.y * call.group + row) * call.rotary.head_dim;
}

// Some keys and values of a row of lanes.
template <int kSteps>
struct StepKeys {
  PackedValues<kStepVec> keys[kSteps];
  PackedValues<kStepVec> values[kSteps];

  // Asks for `key` and those `apart` keys after each other up to `last`.
  __device__ void load(const bf16* from_keys, const bf16* from_values, int head_dim, int key,
                       int apart, int last) {
    from_keys += int64_t{key} * head_dim;
    from_values += int64_t{key} * head_dim;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      keys[step] = load_wanted(from_keys + step * apart * head_dim, key + step * apart <= last);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      values[step] = load_wanted(from_values + step * apart * head_dim, key + step * apart <= last);
  }

  __device__ void put(int step, const PackedValues<kStepVec>& key,
                      const PackedValues<kStepVec>& value) {
    keys[step] = key;
    values[step] = value;
  }
};

template <int kWarps, int kRows, int kLanes>
class StepBlock {
 public:
  static constexpr int kDims = kLanes * kStepVec;
  static constexpr int kKeysOfStep = kWarps * 32 / kLanes;
  using Shared = StepShared<kWarps, kRows, kDims>;

  // `offset`: where the keys of the head begin; `apart`: keys from those of a step to the next
  // ones.
  __device__ StepBlock(int head_dim, int64_t offset, int apart = kKeysOfStep)
      : dim_(static_cast<int>(threadIdx.x) % kLanes * kStepVec),
        head_dim_(head_dim),
        apart_(apart),
        offset_(offset + dim_) {
    state.clear();
  }

  // Asks for the keys from `begin` on, up to `last`, which others may still write.
  template <int kSteps>
  __device__ void load(const RowPlace& place, int begin, int last, StepKeys<kSteps>& keys) const {
    keys.load(place.keys + offset_, place.values + offset_, head_dim_, begin + first(), apart_,
              dim_ < head_dim_ ? last : -1);
  }

  // So many steps of keys from `begin` on, up to `last`, will be read soon. A lane asks for a line.
  template <int kSteps>
  __device__ void prefetch(const RowPlace& place, int begin, int last) const {
    constexpr int kLineValues = kLineBytes / static_cast<int>(sizeof(bf16));
    constexpr int kLines = kDims / kLineValues;  // of a key
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const bf16* from = (lane % 2 == 0 ? place.keys : place.values) + offset_ - dim_ +
                       lane / 2 % kLines * kLineValues;
#pragma unroll
    for (int of_step = 0; of_step < kSteps; of_step += kLanes / (2 * kLines)) {
      const int step = of_step + lane / (2 * kLines);
      const int key = begin + first() + step * apart_;
      if (step < kSteps && key <= last) prefetch_line(from + int64_t{key} * head_dim_);
    }
  }

  // Sees what was loaded from `begin` on, up to the newest.
  template <int kSteps>
  __device__ void see(const Shared& shared, const StepCall& call, int begin, int newest,
                      StepKeys<kSteps>& keys) {
    const int group = call.group;
    const bool mine = dim_ < head_dim_;
    const int left = newest - begin - first();  // keys before the newest
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      if (mine && step * apart_ == left)
        keys.put(step, packed(shared.heads[group]), packed(shared.heads[group + 1]));
    PackedValues<kStepVec> q[kRows];
#pragma unroll
    for (int row = 0; row < kRows; ++row)
      q[row] = mine ? packed(shared.heads[row]) : PackedValues<kStepVec>{};
    float scores[kRows][kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const float dot = dot_of_row<kLanes>(q[row], keys.keys[step]);
        scores[row][step] = step * apart_ <= left ? dot * call.scale : minus_infinity();
      }
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) state.add(row, scores[row], keys.values);
  }

  RowSums<kRows, kStepVec> state;

 private:
  // Of the keys at once, the first of this row of lanes.
  __device__ static int first() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ PackedValues<kStepVec> packed(const bf16* head) const {
    return *reinterpret_cast<const PackedValues<kStepVec>*>(head + dim_);
  }

  int dim_;
  int head_dim_;
  int apart_;
  int64_t offset_;
};

// Calls then(warps, rows, lanes), all of them constants, with those that a call needs.
template <class Then>
void choose_step(int warps, const StepCall& call, const Then& then) {
  const auto with_lanes = [&](auto its_warps, auto rows) {
    if (call.rotary.head_dim <= 64)
      then(its_warps, rows, std::integral_constant<int, 8>());
    else
      then(its_warps, rows, std::integral_constant<int, 16>());
  };
  const auto with_rows = [&](auto its_warps) {
    if (call.group == 1)
      with_lanes(its_warps, std::integral_constant<int, 1>());
    else if (call.group == 2)
      with_lanes(its_warps, std::integral_constant<int, 2>());
    else
      with_lanes(its_warps, std::integral_constant<int, kMostStepRows>());
  };
  if (warps == 8)
    with_rows(std::integral_constant<int, 8>());
  else
    with_rows(std::integral_constant<int, 16>());
}

// The two ways of attention_step_cuda; the second where the workspace has clusters.
void attend_step_in_parts(cudaStream_t stream, const StepShape& shape, const StepCall& call,
                          const AttentionWorkspace& workspace);
void attend_step_in_clusters(cudaStream_t stream, const StepShape& shape, const StepCall& call,
                             const AttentionWorkspace& workspace);

}  // namespace fovea
