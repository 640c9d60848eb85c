// SPDX-License-Identifier: Apache-2.0
// What a block of sparse_long_cuda has in shared memory, which steps it takes in which order, and
// what a warpgroup does with its block of queries.
#pragma once

#include "device/cuda/tensor_copy.h"
#include "device/cuda/warpgroup.h"
#include "ops/attention/sparse/spans_cuda.h"

namespace fovea {

inline constexpr int kSparseGroups = 2;  // that multiply
inline constexpr int kSparseStages = 5;  // three steps of each
inline constexpr int kSparseKeys = 128;  // of a step
inline constexpr int kSparseDim = 64;
inline constexpr int kSparseThreads = (kSparseGroups + 1) * kWarpgroup;
inline constexpr int kSpanBytes = RowBlocks::kMaxBlockRows * kSparseDim * 2;

struct SparseLayout {
  // Of a tile and the next one.
  alignas(kTensorAlignment) unsigned char queries[2][kSparseGroups][kSpanBytes];
  unsigned char keys[kSparseStages][2 * kSpanBytes];
  unsigned char values[kSparseStages][2 * kSpanBytes];
  SharedBarrier queries_are_here[2];
  SharedBarrier queries_are_free[2];
  SharedBarrier keys_are_here[kSparseStages];
  SharedBarrier keys_are_free[kSparseStages];
  SharedBarrier values_are_here[kSparseStages];
  SharedBarrier values_are_free[kSparseStages];
};

struct SparseTensors {
  TensorMap queries;
  TensorMap keys;
  TensorMap values;
  TensorMap coarse_keys;
  TensorMap coarse_values;
};

// kRagged: spans may be shorter than 64 rows, lists of any length, and keys have biases.
//
// Steps of a tile go through the ring in this order: the first two spans of each warpgroup's list,
// one warpgroup after the other, then the next two; then the coarse keys, which are for all.
template <bool kRagged>
struct SparseTile {
  int head;
  int block;                  // the first one
  int groups;                 // one block each
  int rounds[kSparseGroups];  // of two spans; all alike but where kRagged

  __device__ SparseTile(const SparseCall& call, int index) {
    const int of_head = ceil_div(call.rows.blocks, kSparseGroups);
    head = index / of_head;
    block = (index - head * of_head) * kSparseGroups;
    groups = min(kSparseGroups, call.rows.blocks - block);
#pragma unroll
    for (int i = 0; i < kSparseGroups; ++i)
      rounds[i] = !kRagged ? call.full.room / 2
                  : call.full.room == 0 || i >= groups
                      ? 0
                      : ceil_div(SpanChoice(call, head, block + i).spans(call), 2);
  }
  __device__ int rounds_of(int group) const {
    int found = rounds[0];
    if constexpr (kRagged) {
#pragma unroll
      for (int i = 1; i < kSparseGroups; ++i)
        if (i == group) found = rounds[i];
    }
    return found;
  }
  // The most of one of them, and of all together.
  __device__ int most_rounds() const {
    if constexpr (!kRagged) return rounds[0];
    int most = 0;
#pragma unroll
    for (int i = 0; i < kSparseGroups; ++i) most = max(most, rounds[i]);
    return most;
  }
  __device__ int in_full() const {
    if constexpr (!kRagged) return groups * rounds[0];
    int all = 0;
#pragma unroll
    for (int i = 0; i < kSparseGroups; ++i) all += rounds[i];
    return all;
  }
  // How many steps of others stand between round `round` of a warpgroup and its next; -1: before
  // its first.
  __device__ int others_after(int group, int round) const {
    if constexpr (!kRagged) return round < 0 ? group : groups - 1;
    int others = 0;
#pragma unroll
    for (int i = 0; i < kSparseGroups; ++i)
      others += static_cast<int>(i != group && rounds[i] > (i < group ? round + 1 : round) &&
                                 (round >= 0 || i < group));
    return others;
  }
  __device__ bool is_even() const {
    if constexpr (!kRagged) return true;
    bool even = true;
#pragma unroll
    for (int i = 1; i < kSparseGroups; ++i) even = even && (i >= groups || rounds[i] == rounds[0]);
    return even;
  }
};

// A place in the ring, counted from the first step of all.
struct SparsePlace {
  unsigned step = 0;
  __device__ int stage() const { return static_cast<int>(step % kSparseStages); }
  __device__ int parity() const { return static_cast<int>(step / kSparseStages % 2); }
};

__device__ inline int coarse_steps(const SparseCall& call) {
  return ceil_div(call.coarse.count, kSparseKeys);
}

// The block of queries of a warpgroup.
template <bool kRagged>
class SparseBlock {
 public:
  __device__ SparseBlock(const SparseCall& call, SparseLayout& shared, int group)
      : call_(call), shared_(shared), group_(group) {
    scale_ = call.rows.scale * kLog2E;
  }

  __device__ void attend(const SparseTile<kRagged>& tile) {
    next_turn_ = 0;
    if (tile.groups > 1 && tile.is_even()) next_turn_ = group_ + 1 == tile.groups ? 1 : group_ + 2;
    mine_ = tile.groups == kSparseGroups ? kSparseGroups : 1;
    head_ = tile.head;
    block_ = tile.block + group_;
    const int rounds = tile.rounds_of(group_);
    const int steps = rounds + coarse_steps(call_);
    const unsigned coarse = begin_ + tile.in_full();
    wait_for_queries();
    SparsePlace keys{rounds == 0 ? coarse : begin_ + tile.others_after(group_, -1)};
    SparsePlace values = keys;
    largest_[0] = largest_[1] = minus_infinity();
    total_[0] = total_[1] = 0;
    wait_for_phase(&shared_.keys_are_here[keys.stage()], keys.parity());
    take_turn();
    begin_scores(keys);
    pass_turn();
    wait_for_products<0>();
    free_step(shared_.keys_are_free, keys, rounds > 0);
    weigh(add_biases(0, rounds, out_of(0, rounds)));
    keep_weights();
#pragma unroll 1
    for (int step = 1; step < steps; ++step) {
      keys.step = step >= rounds ? coarse + step - rounds
                                 : keys.step + 1 + tile.others_after(group_, step - 1);
      const unsigned out = out_of(step, rounds);
      wait_for_phase(&shared_.keys_are_here[keys.stage()], keys.parity());
      take_turn();
      begin_scores(keys);
      wait_for_phase(&shared_.values_are_here[values.stage()], values.parity());
      begin_sums(values, step > 1);
      pass_turn();
      wait_for_products<1>();
      free_step(shared_.keys_are_free, keys, step < rounds);
      const float2 factor = weigh(add_biases(step, rounds, out));
      wait_for_products<0>();
      free_step(shared_.values_are_free, values, step - 1 < rounds);
      shrink(factor);
      keep_weights();
      values = keys;
    }
    free_queries();
    wait_for_phase(&shared_.values_are_here[values.stage()], values.parity());
    begin_sums(values, steps > 1);
    add_totals();
    wait_for_products<0>();
    free_step(shared_.values_are_free, values, steps - 1 < rounds);
    begin_ = coarse + coarse_steps(call_);
    write();
  }

  // What the others wait for, of a tile that has no queries for this warpgroup.
  __device__ void pass(const SparseTile<kRagged>& tile) {
    wait_for_queries();
    free_queries();
    const int steps = tile.in_full() + coarse_steps(call_);
    for (int i = 0; i < steps; ++i) {
      const SparsePlace place{begin_++};
      wait_for_phase(&shared_.keys_are_here[place.stage()], place.parity());
      free_step(shared_.keys_are_free, place, false);
      wait_for_phase(&shared_.values_are_here[place.stage()], place.parity());
      free_step(shared_.values_are_free, place, false);
    }
  }

 private:
  __device__ int row_of(int half) const {
    return static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane_ / 4 + 8 * half;
  }
  __device__ void free(SharedBarrier* barrier, int times) {
    if (lane_ == 0) arrive(barrier, times);
  }
  __device__ void wait_for_queries() {
    const unsigned place = tile_ % 2;
    wait_for_phase(&shared_.queries_are_here[place], static_cast<int>(tile_ / 2 % 2));
    queries_ = operand_of<kSparseDim>(shared_.queries[place][group_]);
  }
  __device__ void free_queries() {
    free(&shared_.queries_are_free[tile_ % 2], 1);
    ++tile_;
  }
  // Nobody else reads a step that is mine, so that I give back for all; but one that passes follows
  // each step, since it could not tell how often a place was used since it last looked.
  __device__ void free_step(SharedBarrier (&barriers)[kSparseStages], SparsePlace place,
                            bool is_mine) {
    free(&barriers[place.stage()], is_mine ? mine_ : 1);
  }

  // Turns go round among the warpgroups of a tile, where all of them take as many steps.
  __device__ void take_turn() {
    if (next_turn_ > 0) wait_for_turn(1 + group_);
  }
  __device__ void pass_turn() {
    if (next_turn_ > 0) give_turn(next_turn_);
  }

  __device__ void begin_scores(SparsePlace place) {
    const uint64_t keys = operand_of<kSparseDim>(shared_.keys[place.stage()]);
    begin_products();
#pragma unroll
    for (int i = 0; i < kSparseDim / 16; ++i)
      warpgroup_multiply(scores_, queries_ + i * kNextValues, keys + i * kNextValues, i > 0);
    end_products();
  }
  __device__ void begin_sums(SparsePlace place, bool add) {
    const uint64_t values = operand_of<kSparseDim>(shared_.values[place.stage()]);
    begin_products();
#pragma unroll
    for (int i = 0; i < kSparseKeys / 16; ++i)
      warpgroup_multiply_transposed(sums_, weights_[i], values + i * kNextRows<kSparseDim>,
                                    add || i > 0);
    end_products();
  }

  // Which blocks' coarse keys are left out of a step; asked for before it is waited for.
  __device__ unsigned out_of(int step, int rounds) const {
    if (step < rounds || call_.full.in_full == nullptr) return 0;
    return SpanChoice(call_, head_, block_).in_full[step - rounds];
  }
  // Products get the biases of their keys; -infinity where a query does not see one. -> what is
  // still to be added to all scores.
  __device__ float add_biases(int step, int rounds, unsigned out) {
    if (step < rounds) {
      if constexpr (kRagged) add_span_biases(2 * step);
      return 0;
    }
    if (call_.coarse.biases != nullptr || call_.coarse.every > 0) {
      add_coarse_biases(step - rounds, out);
      return 0;
    }
    leave_out(step - rounds, out);
    return call_.coarse.bias * kLog2E;
  }
  __device__ void add_span_biases(int first) {
    const SpanChoice choice(call_, head_, block_);
    RowSpan spans[2];
    spans[0] = choice.list[first];
    const int count = choice.spans(call_);
    if (first + 1 < count) spans[1] = choice.list[first + 1];
    const float inverse = 1 / call_.rows.scale;
#pragma unroll
    for (int i = 0; i < kSparseKeys / 8; ++i) {
      const RowSpan& span = spans[i / 8];
      const float bias = span.bias * inverse;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool is_key = i % 8 * 8 + lane_ % 4 * 2 + j % 2 < span.count;
        scores_[i][j] = is_key ? scores_[i][j] + bias : minus_infinity();
      }
    }
  }
  // A word says of the 128 coarse keys which blocks are left out, 4 keys each.
  static_assert(kSparseKeys == kCoarseStep && kSparseKeys == kBlocksOfWord * kGroupsOfBlock);
  __device__ void leave_out(int step, unsigned out) {
    const int count = call_.coarse.count - step * kSparseKeys;
    if (count < kSparseKeys) out |= ~0u << ceil_div(count, kGroupsOfBlock);
    out >>= lane_ % 4 / 2;
#pragma unroll
    for (int i = 0; i < kSparseKeys / 8; ++i) {
      const bool is_out = (out >> 2 * i & 1) != 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) scores_[i][j] = is_out ? minus_infinity() : scores_[i][j];
    }
  }
  __device__ void add_coarse_biases(int step, unsigned out) {
    const CoarseKeys& coarse = call_.coarse;
    const float inverse = 1 / call_.rows.scale;
    out >>= lane_ % 4 / 2;
    const int first = step * kSparseKeys + lane_ % 4 * 2;
    int own_first = 0;
    int own_end = 0;
    if (coarse.every > 0) {
      const RowSpan own = call_.rows.spans[block_];
      own_first = ceil_div(own.first, coarse.every);
      own_end = ceil_div(own.first + own.count, coarse.every);
    }
#pragma unroll
    for (int i = 0; i < kSparseKeys / 8; ++i) {
      const int key = first + i * 8;
      const bool is_out = (out >> 2 * i & 1) != 0;
      float2 bias = make_float2(0, 0);
      if (coarse.biases != nullptr)
        bias = __ldg(reinterpret_cast<const float2*>(coarse.biases + key));
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const bool is_own = key + side >= own_first && key + side < own_end;
        const float more = is_out || is_own || key + side >= coarse.count
                               ? minus_infinity()
                               : (side == 0 ? bias.x : bias.y) * inverse;
        scores_[i][side] += more;
        scores_[i][2 + side] += more;
      }
    }
  }

  // Scores, and what is to be added to them, become weights. -> what those before them shrink by.
  __device__ float2 weigh(float more) {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = fmaxf(scores_[0][2 * half], scores_[0][2 * half + 1]);
#pragma unroll
      for (int i = 1; i < kSparseKeys / 8; ++i)
        largest = fmaxf(largest, fmaxf(scores_[i][2 * half], scores_[i][2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaf(fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2)), scale_, more);
      largest = fmaxf(largest, largest_[half]);
      factor[half] = fast_exp2(largest_[half] - largest);
      largest_[half] = largest;
      float total = 0;
#pragma unroll
      for (int i = 0; i < kSparseKeys / 8; ++i)
#pragma unroll
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
          scores_[i][j] = fast_exp2(fmaf(scores_[i][j], scale_, more - largest));
          total += scores_[i][j];
        }
      total_[half] = total_[half] * factor[half] + total;
    }
    return make_float2(factor[0], factor[1]);
  }
  __device__ void keep_weights() {
#pragma unroll
    for (int i = 0; i < kSparseKeys / 8; ++i) {
      weights_[i / 2][i % 2 * 2] = to_pair(scores_[i][0], scores_[i][1]);
      weights_[i / 2][i % 2 * 2 + 1] = to_pair(scores_[i][2], scores_[i][3]);
    }
  }
  __device__ void shrink(float2 factor) {
#pragma unroll
    for (int i = 0; i < kSparseDim / 8; ++i) {
      sums_[i][0] *= factor.x;
      sums_[i][1] *= factor.x;
      sums_[i][2] *= factor.y;
      sums_[i][3] *= factor.y;
    }
  }
  // The four lanes of a row have a quarter of its keys each.
  __device__ void add_totals() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      total_[half] += __shfl_xor_sync(kAllLanes, total_[half], 1);
      total_[half] += __shfl_xor_sync(kAllLanes, total_[half], 2);
    }
  }
  __device__ void write() {
    const RowSpan own = call_.rows.spans[block_];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      if (row >= own.count) continue;
      const float inverse = 1 / total_[half];
      bf16* to = call_.out + (own.first + row) * call_.out_stride + int64_t{head_} * kSparseDim +
                 lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < kSparseDim / 8; ++i)
        *reinterpret_cast<uint32_t*>(to + i * 8) =
            to_pair(sums_[i][2 * half] * inverse, sums_[i][2 * half + 1] * inverse);
    }
  }

  const SparseCall& call_;
  SparseLayout& shared_;
  int group_;
  int lane_ = static_cast<int>(threadIdx.x) % 32;
  int mine_ = 1;
  int head_ = 0;
  int block_ = 0;       // of the queries
  int next_turn_ = 0;   // of the warpgroup after this one, from 1; 0: there is none
  unsigned tile_ = 0;   // how many came before
  unsigned begin_ = 0;  // of the tile in the ring
  uint64_t queries_;
  float scale_;
  float scores_[kSparseKeys / 8][4];
  uint32_t weights_[kSparseKeys / 16][4];
  float sums_[kSparseDim / 8][4];
  float largest_[2];
  float total_[2];
};

}  // namespace fovea
