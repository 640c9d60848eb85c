// SPDX-License-Identifier: Apache-2.0
// What the blocks of attention_step_cuda do with the new token, and with keys and values.
#pragma once

#include "ops/attention_few_cuda.h"
#include "ops/turn_parts_cuda.h"

namespace fovea {

inline constexpr int kStepVec = 8;

struct StepCall {
  TurnJob turn;
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
  return (int64_t{call.turn.layer} * call.turn.kv_heads + kv_head) * place.capacity *
         call.turn.head_dim;
}

// Head `head` of the block's row of qkv, by one warp.
template <int kLanes>
__device__ void turn_head(const TurnJob& job, int head, bool has_norm, bool turns,
                          const float* weights, bf16* to) {
  const int i = static_cast<int>(threadIdx.x) % 32 * 4;
  const int half = job.head_dim / 2;
  const int64_t row = blockIdx.z;
  const HeadLoads loads = load_head(job, job.qkv + row * job.stride + int64_t{head} * job.head_dim,
                                    turns, row, i, i < half);
  HeadPart part{four_of(loads.first), four_of(loads.second)};
  const float factor = factor_of(job, part, kLanes);
  if (i >= half) return;
  if (has_norm)
    part = normed(part, factor,
                  {*reinterpret_cast<const float4*>(weights + i),
                   *reinterpret_cast<const float4*>(weights + half + i)});
  if (turns) part = turned(part, loads.cos, loads.sin);
  write_four(to + i, part.first);
  write_four(to + half + i, part.second);
}

// Weights of the norms are there before the new token is.
template <class Shared>
__device__ void load_norms(const TurnJob& job, Shared& shared) {
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
__device__ void turn_token(const StepCall& call, int kv_head, Shared& shared) {
  const TurnJob& job = call.turn;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp > call.group + 1) return;
  const bool is_query = warp < call.group;
  const bool is_value = warp > call.group;
  const bool has_norm = !is_value && (is_query ? job.q_norm : job.k_norm) != nullptr;
  const int head =
      is_query ? kv_head * call.group + warp : job.heads + kv_head + (is_value ? job.kv_heads : 0);
  turn_head<kLanes>(job, head, has_norm, !is_value, shared.norms[is_query ? 0 : 1],
                    shared.heads[warp]);
}

// Some keys and values of a row of lanes, kApart keys between them.
template <int kSteps, int kApart>
struct StepKeys {
  static constexpr int kCount = kSteps * kApart;  // of all rows of lanes

  PackedValues<kStepVec> keys[kSteps];
  PackedValues<kStepVec> values[kSteps];

  // Asks for `key` and those after it up to `last`.
  __device__ void load(const bf16* from_keys, const bf16* from_values, int head_dim, int key,
                       int last) {
    from_keys += int64_t{key} * head_dim;
    from_values += int64_t{key} * head_dim;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      keys[step] = load_wanted(from_keys + step * kApart * head_dim, key + step * kApart <= last);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      values[step] =
          load_wanted(from_values + step * kApart * head_dim, key + step * kApart <= last);
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
  template <int kSteps>
  using Keys = StepKeys<kSteps, kKeysOfStep>;

  // `offset`: where the keys of the head begin.
  __device__ StepBlock(int head_dim, int64_t offset)
      : dim_(static_cast<int>(threadIdx.x) % kLanes * kStepVec),
        head_dim_(head_dim),
        offset_(offset + dim_) {
    state.clear();
  }

  // Asks for the keys from `begin` on, up to `last`, which others may still write.
  template <int kSteps>
  __device__ void load(const RowPlace& place, int begin, int last, Keys<kSteps>& keys) const {
    keys.load(place.keys + offset_, place.values + offset_, head_dim_, begin + first(),
              dim_ < head_dim_ ? last : -1);
  }

  // Sees what was loaded from `begin` on, up to the newest.
  template <int kSteps>
  __device__ void see(const Shared& shared, const StepCall& call, int begin, int newest,
                      Keys<kSteps>& keys) {
    const int group = call.group;
    const bool mine = dim_ < head_dim_;
    const int left = newest - begin - first();  // keys before the newest
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      if (mine && step * kKeysOfStep == left)
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
        scores[row][step] = step * kKeysOfStep <= left ? dot * call.scale : minus_infinity();
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
  int64_t offset_;
};

}  // namespace fovea
