// SPDX-License-Identifier: Apache-2.0
// What a warpgroup of attention_long_cuda does with its 64 rows of a tile.
#pragma once

#include "ops/attention/attention_long_parts_cuda.h"
#include "ops/attention/eight/eight_bits.h"

namespace fovea {

// The 64 rows of a warpgroup.
template <class Form>
class LongRows {
  using Layout = LongLayout<Form>;
  static constexpr int kKeys = Form::kKeys;
  static constexpr bool kHasRest = Form::kRest > 0;
  static constexpr int kOfPiece = kLongPieceBytes / 32;  // products
  static constexpr int kWeights = kKeys / (Form::kEight ? 32 : 16);
  static constexpr int kSums = Form::kDim / 8 - Form::kRest / 8;
  // Of eight bits, the largest weight is 256: below, fewer and fewer bits are left.
  static constexpr float kShift = Form::kEight ? 8 : 0;

 public:
  __device__ LongRows(const LongCall& call, Layout& shared, int group)
      : call_(call), shared_(shared), group_(group) {
    queries_ = operand_of<kLongWide>(shared.queries + group * kLongRows * kLongPieceBytes);
    if constexpr (kHasRest)
      rest_queries_ = operand_of<16>(shared.rest_queries + group * kLongRows * Form::kRest * 2);
  }

  // Tile after tile, as they are copied.
  __device__ void run() {
    if (group_ == Form::kGroups - 1) give_turn(1);
    for (int parity = 0;; parity ^= 1) {
      wait_for_phase(&shared_.queries_are_here, parity);
      const LongTile& tile = shared_.tiles[parity];  // read again where it is needed
      if (tile.keys == 0) break;
      if (group_ < tile.groups)
        attend(tile);
      else
        pass(tile);
    }
    if (group_ == 0) wait_for_turn(1);  // the one that was given last
  }

 private:
  __device__ void attend(const LongTile& tile) {
    seen_by_all_ = long_keys_of(call_.plan.sequences[tile.sequence], tile.row + group_ * kLongRows);
    if (tile.groups == 1)
      next_turn_ = 0;
    else
      next_turn_ = group_ + 1 == tile.groups ? 1 : group_ + 2;
    wait_for_phase(&shared_.keys_are_here[keys_at_.stage], keys_at_.parity);
    take_turn();
    begin_scores();
    pass_turn();
    wait_for_products<0>();
    free_keys();
    largest_[0] = largest_[1] = minus_infinity();
    total_[0] = total_[1] = 0;
    weigh(tile, 0);
    keep_weights();
#pragma unroll 1
    for (int begin = kKeys; begin < tile.keys; begin += kKeys) {
      wait_for_phase(&shared_.keys_are_here[keys_at_.stage], keys_at_.parity);
      take_turn();
      begin_scores();
      wait_for_phase(&shared_.values_are_here[values_at_.stage], values_at_.parity);
      begin_sums(begin > kKeys);
      pass_turn();
      wait_for_products<1>();
      free_keys();
      const float2 factor = weigh(tile, begin);
      wait_for_products<0>();
      free_values();
      shrink_sums(factor);
      keep_weights();
    }
    free(&shared_.queries_are_free);
    wait_for_phase(&shared_.values_are_here[values_at_.stage], values_at_.parity);
    begin_sums(tile.keys > kKeys);
    add_totals();
    wait_for_products<0>();
    free_values();
    write(tile);
  }

  // What the others wait for, of a tile that has no rows for this warpgroup.
  __device__ void pass(const LongTile& tile) {
    free(&shared_.queries_are_free);
    for (int key = 0; key < tile.keys; key += kKeys) {
      wait_for_phase(&shared_.keys_are_here[keys_at_.stage], keys_at_.parity);
      free_keys();
      wait_for_phase(&shared_.values_are_here[values_at_.stage], values_at_.parity);
      free_values();
    }
  }

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
    for (int i = 0; i < Form::kPieces * kOfPiece; ++i) {
      const uint64_t values = i % kOfPiece * kNextValues;
      const uint64_t a = queries_ + i / kOfPiece * (Layout::kQueryPiece >> 4) + values;
      const uint64_t b = keys + i / kOfPiece * (Layout::kPiece >> 4) + values;
      if constexpr (Form::kEight)
        warpgroup_multiply_eight(scores_, a, b, i > 0);
      else
        warpgroup_multiply(scores_, a, b, i > 0);
    }
    if constexpr (kHasRest)
      warpgroup_multiply(scores_, rest_queries_, operand_of<16>(shared_.rest_keys[keys_at_.stage]),
                         true);
    end_products();
  }
  __device__ void begin_sums(bool add) {
    const unsigned char* step = shared_.values[values_at_.stage];
    begin_products();
    if constexpr (Form::kEight) {
      constexpr int kColumnKeys = Form::kColumnKeys;
#pragma unroll
      for (int i = 0; i < kWeights; ++i)
        warpgroup_multiply_eight(sums_, weights_[i],
                                 operand_of<kColumnKeys / 2>(step) +
                                     i * 32 / kColumnKeys * (Form::kDim * kColumnKeys >> 4) +
                                     i % (kColumnKeys / 32) * kNextValues,
                                 add || i > 0);
    } else {
      const uint64_t values = operand_of<kLongWide>(step, Layout::kPiece);
#pragma unroll
      for (int i = 0; i < kWeights; ++i)
        warpgroup_multiply_transposed(sums_, weights_[i], values + i * kNextRows<kLongWide>,
                                      add || i > 0);
    }
    if constexpr (kHasRest) {
      const uint64_t rest = operand_of<16>(shared_.rest_values[values_at_.stage]);
#pragma unroll
      for (int i = 0; i < kWeights; ++i)
        warpgroup_multiply_transposed(rest_sums_, weights_[i], rest + i * kNextRows<16>,
                                      add || i > 0);
    }
    end_products();
  }

  // Of a warpgroup's rows, the first that this thread has; the other one is 8 behind it.
  __device__ int own_row() const {
    return group_ * kLongRows + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane_ / 4;
  }
  // Scores of keys that a row does not see. Every row sees the first key: there is a largest score.
  __device__ void hide_scores(const LongTile& tile, int begin) {
    const LongSequence& sequence = call_.plan.sequences[tile.sequence];
    const int first = begin + lane_ % 4 * 2;
    const int seen[2] = {long_keys_of(sequence, tile.row + own_row()) - first,
                         long_keys_of(sequence, tile.row + own_row() + 8) - first};
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (i * 8 + j % 2 >= seen[j / 2]) scores_[i][j] = minus_infinity();
  }
  // Scores of the keys from `begin` on become weights. -> what those before them shrink by.
  __device__ float2 weigh(const LongTile& tile, int begin) {
    if (begin + kKeys > seen_by_all_) hide_scores(tile, begin);
    const float scale = Form::kEight ? tile.scale : call_.scale;
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = fmaxf(scores_[0][2 * half], scores_[0][2 * half + 1]);
#pragma unroll
      for (int i = 1; i < kKeys / 8; ++i)
        largest = fmaxf(largest, fmaxf(scores_[i][2 * half], scores_[i][2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2)) * scale;
      largest = fmaxf(largest, largest_[half]);
      factor[half] = fast_exp2(largest_[half] - largest);
      largest_[half] = largest;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = largest_[half] - kShift;
      float total = 0;
#pragma unroll
      for (int i = 0; i < kKeys / 8; ++i)
#pragma unroll
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
          scores_[i][j] = fast_exp2(fmaf(scores_[i][j], scale, -base));
          total += scores_[i][j];
        }
      total_[half] = total_[half] * factor[half] + total;
    }
    return make_float2(factor[0], factor[1]);
  }
  __device__ void keep_weights() {
    if constexpr (Form::kEight) {
#pragma unroll
      for (int i = 0; i < kKeys / 8; ++i)
        for (int half = 0; half < 2; ++half) {
          uint32_t& word = weights_[i / 4][i / 2 % 2 * 2 + half];
          const uint32_t pair = to_eight_pair(scores_[i][2 * half], scores_[i][2 * half + 1]);
          word = i % 2 == 0 ? pair : word | pair << 16;
        }
    } else {
#pragma unroll
      for (int i = 0; i < kKeys / 8; ++i) {
        weights_[i / 2][i % 2 * 2] = to_pair(scores_[i][0], scores_[i][1]);
        weights_[i / 2][i % 2 * 2 + 1] = to_pair(scores_[i][2], scores_[i][3]);
      }
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
    const LongSequence& sequence = call_.plan.sequences[tile.sequence];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + own_row() + 8 * half;
      if (row >= sequence.queries) continue;
      const float inverse = (Form::kEight ? tile.out_scale : 1.0f) / total_[half];
      const int column = lane_ % 4 * 2;
      bf16* to = call_.out + (sequence.q_begin + row) * call_.out_stride +
                 int64_t{tile.head} * call_.head_dim + column;
      const auto store = [&](int at, const float(&sums)[4]) {
        *reinterpret_cast<uint32_t*>(to + at) =
            to_pair(sums[2 * half] * inverse, sums[2 * half + 1] * inverse);
      };
#pragma unroll
      for (int i = 0; i < kSums; ++i) store(i * 8, sums_[i]);
      if constexpr (kHasRest) {
#pragma unroll
        for (int i = 0; i < Form::kRest / 8; ++i)
          if (kLongWide + i * 8 < call_.head_dim) store(kLongWide + i * 8, rest_sums_[i]);
      }
    }
  }

  const LongCall& call_;
  Layout& shared_;
  int group_;
  int lane_ = static_cast<int>(threadIdx.x) % 32;
  int next_turn_ = 0;  // of the warpgroup after this one, from 1; 0: there is none
  uint64_t queries_;
  uint64_t rest_queries_ = 0;
  RingPlace<Form::kStages> keys_at_;
  RingPlace<Form::kStages> values_at_;
  float scores_[kKeys / 8][4];
  uint32_t weights_[kWeights][4];
  float sums_[kSums][4];
  float rest_sums_[2][4];
  int seen_by_all_ = 0;  // keys, by all rows
  float largest_[2];
  float total_[2];
};

}  // namespace fovea
