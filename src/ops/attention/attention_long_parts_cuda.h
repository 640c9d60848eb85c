// SPDX-License-Identifier: Apache-2.0
// What a block of attention_long_cuda has in shared memory, the tiles that it takes, and what a
// warpgroup does with its 64 rows of one.
#pragma once

#include <algorithm>

#include "device/cuda/tensor_copy.h"
#include "device/cuda/warpgroup.h"
#include "ops/attention/attention_parts_cuda.h"

namespace fovea {

inline constexpr int kLongKeys = 128;  // of a step
inline constexpr int kLongStages = 2;
inline constexpr int kLongRows = 64;  // of a warpgroup
// Values of a head that lie together; the rest, up to 16, lie apart.
inline constexpr int kLongWide = 64;

struct LongTensors {
  TensorMap queries;
  TensorMap keys;
  TensorMap values;
};

// kDim is 64, or 80 for heads of 72 or 80 values.
template <int kDim>
struct LongLayout {
  static constexpr int kGroups = kDim == kLongWide ? 3 : 2;
  static constexpr int kRest = kDim - kLongWide;
  static constexpr int kThreads = (kGroups + 1) * kWarpgroup;
  static constexpr int kRegisters = kGroups == 3 ? 160 : 240;
  static constexpr int kCopyRegisters = kGroups == 3 ? 32 : 24;

  // In bytes.
  static constexpr int kQueries = kGroups * kLongRows * kLongWide * 2;
  static constexpr int kStep = kLongKeys * kLongWide * 2;
  static constexpr int kRestQueries = kGroups * kLongRows * kRest * 2;
  static constexpr int kRestStep = kLongKeys * kRest * 2;

  alignas(kTensorAlignment) unsigned char queries[kQueries];
  unsigned char keys[kLongStages][kStep];
  unsigned char values[kLongStages][kStep];
  unsigned char rest_queries[std::max(kRestQueries, 1)];
  alignas(kTensorAlignment) unsigned char rest_keys[kLongStages][std::max(kRestStep, 1)];
  unsigned char rest_values[kLongStages][std::max(kRestStep, 1)];
  SharedBarrier queries_are_here;
  SharedBarrier queries_are_free;
  SharedBarrier keys_are_here[kLongStages];
  SharedBarrier keys_are_free[kLongStages];
  SharedBarrier values_are_here[kLongStages];
  SharedBarrier values_are_free[kLongStages];
};

// Tiles of a head: `large` of all warpgroups' rows, then `small` of one warpgroup's less.
struct LongCall {
  bf16* out;  // [queries][heads][head_dim], rows out_stride apart
  int64_t out_stride;
  int queries;
  int keys;
  int heads;
  int group;  // heads that share keys
  int head_dim;
  float scale;  // times log2(e)
  int large;
  int small;
};

struct LongTile {
  int head;
  int row;
  int groups;  // of its rows
};

template <int kGroups>
__device__ LongTile tile_of(const LongCall& call, int index) {
  const int large = call.heads * call.large;
  if (index < large) return {index / call.large, index % call.large * kGroups * kLongRows, kGroups};
  index -= large;
  return {index / call.small,
          (call.large * kGroups + index % call.small * (kGroups - 1)) * kLongRows, kGroups - 1};
}
__device__ inline int tiles_of(const LongCall& call) {
  return call.heads * (call.large + call.small);
}

// Which place of a ring comes next, and the parity of its phase.
struct RingPlace {
  int stage = 0;
  int parity = 0;
  __device__ void step() {
    if (++stage == kLongStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The 64 rows of a warpgroup.
template <int kDim>
class LongRows {
  using Layout = LongLayout<kDim>;
  static constexpr bool kHasRest = Layout::kRest > 0;

 public:
  __device__ LongRows(const LongCall& call, Layout& shared, int group)
      : call_(call), shared_(shared), group_(group) {
    queries_ = operand_of<kLongWide>(shared.queries + group * kLongRows * kLongWide * 2);
    if constexpr (kHasRest)
      rest_queries_ = operand_of<16>(shared.rest_queries + group * kLongRows * Layout::kRest * 2);
  }

  __device__ void attend(const LongTile& tile) {
    const int steps = ceil_div(call_.keys, kLongKeys);
    if (tile.groups == 1)
      next_turn_ = 0;
    else
      next_turn_ = group_ + 1 == tile.groups ? 1 : group_ + 2;
    wait_for_phase(&shared_.queries_are_here, queries_parity_);
    queries_parity_ ^= 1;
    wait_for_phase(&shared_.keys_are_here[keys_at_.stage], keys_at_.parity);
    take_turn();
    begin_scores();
    pass_turn();
    wait_for_products<0>();
    free_keys();
    largest_[0] = largest_[1] = minus_infinity();
    total_[0] = total_[1] = 0;
    weigh(0);
    keep_weights();
#pragma unroll 1
    for (int step = 1; step < steps; ++step) {
      wait_for_phase(&shared_.keys_are_here[keys_at_.stage], keys_at_.parity);
      take_turn();
      begin_scores();
      wait_for_phase(&shared_.values_are_here[values_at_.stage], values_at_.parity);
      begin_sums(step > 1);
      pass_turn();
      wait_for_products<1>();
      free_keys();
      const float2 factor = weigh(step * kLongKeys);
      wait_for_products<0>();
      free_values();
      shrink_sums(factor);
      keep_weights();
    }
    free(&shared_.queries_are_free);
    wait_for_phase(&shared_.values_are_here[values_at_.stage], values_at_.parity);
    begin_sums(steps > 1);
    add_totals();
    wait_for_products<0>();
    free_values();
    write(tile);
  }

  // What the others wait for, of a tile that has no rows for this warpgroup.
  __device__ void pass() {
    wait_for_phase(&shared_.queries_are_here, queries_parity_);
    queries_parity_ ^= 1;
    free(&shared_.queries_are_free);
    for (int key = 0; key < call_.keys; key += kLongKeys) {
      wait_for_phase(&shared_.keys_are_here[keys_at_.stage], keys_at_.parity);
      free_keys();
      wait_for_phase(&shared_.values_are_here[values_at_.stage], values_at_.parity);
      free_values();
    }
  }

 private:
  __device__ void free(SharedBarrier* barrier) {
    if (lane_ == 0) arrive(barrier);
  }
  __device__ void free_keys() {
    free(&shared_.keys_are_free[keys_at_.stage]);
    keys_at_.step();
  }
  __device__ void free_values() {
    free(&shared_.values_are_free[values_at_.stage]);
    values_at_.step();
  }

  // Turns go round among the warpgroups of a tile; one alone has no need of them.
  __device__ void take_turn() {
    if (next_turn_ > 0) wait_for_turn(1 + group_);
  }
  __device__ void pass_turn() {
    if (next_turn_ > 0) give_turn(next_turn_);
  }

  __device__ void begin_scores() {
    const uint64_t keys = operand_of<kLongWide>(shared_.keys[keys_at_.stage]);
    begin_products();
#pragma unroll
    for (int i = 0; i < kLongWide / 16; ++i)
      warpgroup_multiply(scores_, queries_ + i * kNextValues, keys + i * kNextValues, i > 0);
    if constexpr (kHasRest)
      warpgroup_multiply(scores_, rest_queries_, operand_of<16>(shared_.rest_keys[keys_at_.stage]),
                         true);
    end_products();
  }
  __device__ void begin_sums(bool add) {
    const uint64_t values = operand_of<kLongWide>(shared_.values[values_at_.stage]);
    begin_products();
#pragma unroll
    for (int i = 0; i < kLongKeys / 16; ++i)
      warpgroup_multiply_transposed(sums_, weights_[i], values + i * kNextRows<kLongWide>,
                                    add || i > 0);
    if constexpr (kHasRest) {
      const uint64_t rest = operand_of<16>(shared_.rest_values[values_at_.stage]);
#pragma unroll
      for (int i = 0; i < kLongKeys / 16; ++i)
        warpgroup_multiply_transposed(rest_sums_, weights_[i], rest + i * kNextRows<16>,
                                      add || i > 0);
    }
    end_products();
  }

  // Scores of the keys from `begin` on become weights. -> what those before them shrink by.
  __device__ float2 weigh(int begin) {
    if (begin + kLongKeys > call_.keys) {
#pragma unroll
      for (int i = 0; i < kLongKeys / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (begin + i * 8 + lane_ % 4 * 2 + j % 2 >= call_.keys) scores_[i][j] = minus_infinity();
    }
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = fmaxf(scores_[0][2 * half], scores_[0][2 * half + 1]);
#pragma unroll
      for (int i = 1; i < kLongKeys / 8; ++i)
        largest = fmaxf(largest, fmaxf(scores_[i][2 * half], scores_[i][2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2)) * call_.scale;
      largest = fmaxf(largest, largest_[half]);
      factor[half] = fast_exp2(largest_[half] - largest);
      largest_[half] = largest;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = 0;
#pragma unroll
      for (int i = 0; i < kLongKeys / 8; ++i)
#pragma unroll
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
          scores_[i][j] = fast_exp2(fmaf(scores_[i][j], call_.scale, -largest_[half]));
          total += scores_[i][j];
        }
      total_[half] = total_[half] * factor[half] + total;
    }
    return make_float2(factor[0], factor[1]);
  }
  __device__ void keep_weights() {
#pragma unroll
    for (int i = 0; i < kLongKeys / 8; ++i) {
      weights_[i / 2][i % 2 * 2] = to_pair(scores_[i][0], scores_[i][1]);
      weights_[i / 2][i % 2 * 2 + 1] = to_pair(scores_[i][2], scores_[i][3]);
    }
  }
  template <int kCount>
  static __device__ void shrink(float (&sums)[kCount][4], float2 factor) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[i][0] *= factor.x;
      sums[i][1] *= factor.x;
      sums[i][2] *= factor.y;
      sums[i][3] *= factor.y;
    }
  }
  __device__ void shrink_sums(float2 factor) {
    shrink(sums_, factor);
    if constexpr (kHasRest) shrink(rest_sums_, factor);
  }
  // The four lanes of a row have a quarter of its keys each.
  __device__ void add_totals() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      total_[half] += __shfl_xor_sync(kAllLanes, total_[half], 1);
      total_[half] += __shfl_xor_sync(kAllLanes, total_[half], 2);
    }
  }

  __device__ void write(const LongTile& tile) {
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + group_ * kLongRows + warp * 16 + lane_ / 4 + 8 * half;
      if (row >= call_.queries) continue;
      const float inverse = 1 / total_[half];
      const int column = lane_ % 4 * 2;
      bf16* to = call_.out + row * call_.out_stride + int64_t{tile.head} * call_.head_dim + column;
      const auto store = [&](int at, const float(&sums)[4]) {
        *reinterpret_cast<uint32_t*>(to + at) =
            to_pair(sums[2 * half] * inverse, sums[2 * half + 1] * inverse);
      };
#pragma unroll
      for (int i = 0; i < kLongWide / 8; ++i) store(i * 8, sums_[i]);
      if constexpr (kHasRest) {
#pragma unroll
        for (int i = 0; i < Layout::kRest / 8; ++i)
          if (kLongWide + i * 8 < call_.head_dim) store(kLongWide + i * 8, rest_sums_[i]);
      }
    }
  }

  const LongCall call_;
  Layout& shared_;
  int group_;
  int lane_ = static_cast<int>(threadIdx.x) % 32;
  int next_turn_ = 0;  // of the warpgroup after this one, from 1; 0: there is none
  uint64_t queries_;
  uint64_t rest_queries_ = 0;
  RingPlace keys_at_;
  RingPlace values_at_;
  int queries_parity_ = 0;
  float scores_[kLongKeys / 8][4];
  uint32_t weights_[kLongKeys / 16][4];
  float sums_[kLongWide / 8][4];
  float rest_sums_[2][4];
  float largest_[2];
  float total_[2];
};

}  // namespace fovea
