// SPDX-License-Identifier: Apache-2.0
// What a block of attention_turned_cuda.cu does, and where it keeps what.
#pragma once

#include "device/cuda/cluster.h"
#include "ops/attention_few_cuda.h"
#include "ops/attention_join_cuda.h"
#include "ops/turn_parts_cuda.h"

namespace fovea {

inline constexpr int kTurnedKeyWarps = 4;

struct TurnedCall {
  AttentionCall call;
  const float* cos;
  const float* sin;
  int alone;     // rows of the only sequence, where call.sequences is null
  int key_rows;  // there is room for
  int cluster;
};

// kWhole: heads have kDim values, not fewer. kShared: blocks are in clusters.
template <int kDim, bool kWhole, int kRowWarps, bool kShared>
struct TurnedLayout {
  static constexpr int kThreads = 32 * kRowWarps * kTurnedKeyWarps;
  static constexpr int kRows = 16 * kRowWarps;
  static constexpr int kStride = kDim + 8;
  // That registers leave room for on a multiprocessor.
  static constexpr int kBlocks = kRowWarps == 2 && kDim <= 64 && !kShared ? 2 : 1;
  // Parts of rows that a thread asks for before it turns the first: 272 keys and their queries in
  // one round, two where a block has few threads.
  static constexpr int kParts = kShared                        ? 4
                                : kRowWarps == 2               ? 5
                                : kRowWarps == 3 && kDim <= 80 ? 7
                                                               : 6;

  // Sixteens of keys in a step.
  static constexpr int kMost = kDim <= 80 ? 5 : 4;

  using Join = KeyWarpsJoin<kDim, kRowWarps, kTurnedKeyWarps>;
  // Floats: the weights of the join, biases; then bf16: queries, keys and values, whose place the
  // sums of the join take in the end. A warp's last step may reach 16 values too far.
  static constexpr int kBias = Join::kWeights;
  __host__ __device__ static constexpr int queries(int key_rows) { return kBias + key_rows; }
  __host__ __device__ static constexpr int keys(int key_rows) {
    return queries(key_rows) + kRows * kStride / 2;
  }
  static constexpr size_t bytes(int key_rows) {
    const int rows = (2 * key_rows + 16) * kStride / 2;
    return static_cast<size_t>(keys(key_rows) + (rows > Join::kSums ? rows : Join::kSums)) *
           sizeof(float);
  }
};

// Four values of the first half of a head and those they are turned with, and their angles.
struct PartLoads {
  PackedValues<4> first, second;
  PackedValues<8> cos, sin;
};

__device__ inline float4 four_floats(const PackedValues<8>& bits) {
  return make_float4(as_float(bits.pair[0]), as_float(bits.pair[1]), as_float(bits.pair[2]),
                     as_float(bits.pair[3]));
}
__device__ inline float4 four_values(const PackedValues<4>& bits) {
  return four_of(make_uint2(bits.pair[0], bits.pair[1]));
}
__device__ inline uint2 four_pairs(float4 four) {
  return make_uint2(to_pair(four.x, four.y), to_pair(four.z, four.w));
}

template <int kDim, bool kWhole, int kRowWarps, bool kShared>
class TurnedBlock {
 public:
  using Layout = TurnedLayout<kDim, kWhole, kRowWarps, kShared>;

  __device__ TurnedBlock(const TurnedCall& given, const AttentionCall& call,
                         const AttentionSequence& sequence, int row_begin)
      : given_(given),
        call_(call),
        sequence_(sequence),
        thread_(static_cast<int>(threadIdx.x)),
        head_(static_cast<int>(blockIdx.y)),
        row_begin_(row_begin),
        rows_(max(0, min(Layout::kRows, sequence.q_count - row_begin))),
        keys_count_(sequence.q_count),
        shared_(dynamic_shared<float>()),
        queries_(reinterpret_cast<bf16*>(shared_ + Layout::queries(given.key_rows))),
        keys_(reinterpret_cast<bf16*>(shared_ + Layout::keys(given.key_rows))),
        values_(keys_ + given.key_rows * Layout::kStride) {
    if constexpr (kShared) rank_ = rank_in_cluster();
    const int cluster = kShared ? given.cluster : 1;
    share_begin_ = keys_count_ * rank_ / cluster;
    parts_ = (rows_ + keys_count_ * (rank_ + 1) / cluster - share_begin_) * kPartsOfRow;
    const bool any_rows = row_begin - rank_ * Layout::kRows < sequence.q_count;
    if (!any_rows) parts_ = 0;
  }

  __device__ void run() {
    take_rows();
    if constexpr (kShared)
      sync_cluster();
    else
      __syncthreads();
    if (rows_ == 0) return;
    RowsWarp warp(call_, sequence_, queries_, row_begin_, thread_ / 32 % kRowWarps * 16);
    see_keys(warp);
    warp.finish();
    __syncthreads();  // nobody reads keys or values any more
    typename Layout::Join join(shared_, shared_ + Layout::keys(given_.key_rows));
    join.share(warp, key_warp());
    __syncthreads();
    join.write(call_, sequence_, head_, row_begin_, rows_);
  }

 private:
  using RowsWarp = FlashWarp<kDim, 1, false>;
  static constexpr int kPartsOfRow = kDim / 8;

  __device__ int key_warp() const { return thread_ / 32 / kRowWarps; }
  __device__ int head_dim() const { return kWhole ? kDim : call_.head_dim; }
  __device__ int half() const { return head_dim() / 2; }

  // Queries and keys come first; values are on their way while those are turned and multiplied.
  __device__ void take_rows() {
    PartLoads loads[Layout::kParts];
    if (parts_ > 0) load_parts(0, loads);
    if (rows_ > 0) fetch_values();
    if constexpr (kShared) wait_for_cluster();
#pragma unroll 1
    for (int first = 0; first < parts_;) {
      store_parts(first, loads);
      first += Layout::kParts * Layout::kThreads;
      if (first < parts_) load_parts(first, loads);
    }
  }

  // Parts go through the rows of queries, then the keys of this block's share. Those beyond the
  // last are the last once more.
  __device__ void load_parts(int first, PartLoads (&loads)[Layout::kParts]) const {
    const bf16* rows = call_.q + sequence_.q_begin * call_.q_stride + head_ * head_dim();
    const float* cos = given_.cos + int64_t{sequence_.q_begin} * half();
    const float* sin = given_.sin + int64_t{sequence_.q_begin} * half();
#pragma unroll
    for (int n = 0; n < Layout::kParts; ++n) {
      const int part = min(first + n * Layout::kThreads + thread_, parts_ - 1);
      const int at = part / kPartsOfRow;
      const int i = min(part % kPartsOfRow * 4, half() - 4);
      const bool is_query = at < rows_;
      const int row = is_query ? row_begin_ + at : share_begin_ + at - rows_;
      const bf16* from = rows + row * static_cast<int>(call_.q_stride) +
                         (is_query ? 0 : call_.kv_heads * head_dim()) + i;
      loads[n].first = load_packed<4>(from);
      loads[n].second = load_packed<4>(from + half());
      const int angle = row * half() + i;
      loads[n].cos = load_packed<8>(reinterpret_cast<const bf16*>(cos + angle));
      loads[n].sin = load_packed<8>(reinterpret_cast<const bf16*>(sin + angle));
    }
  }

  // The parts that a head shorter than kDim does not have are the zeros behind it.
  __device__ void store_parts(int first, const PartLoads (&loads)[Layout::kParts]) {
#pragma unroll
    for (int n = 0; n < Layout::kParts; ++n) {
      const int part = first + n * Layout::kThreads + thread_;
      if (part >= parts_) break;
      const int at = part / kPartsOfRow;
      const int i = part % kPartsOfRow * 4;
      const bool is_query = at < rows_;
      bf16* to = (is_query ? queries_ + at * Layout::kStride
                           : keys_ + (share_begin_ + at - rows_) * Layout::kStride);
      if (kWhole || i < half()) {
        const HeadPart part_turned =
            turned({four_values(loads[n].first), four_values(loads[n].second)},
                   four_floats(loads[n].cos), four_floats(loads[n].sin));
        put(to + i, four_pairs(part_turned.first), is_query);
        put(to + half() + i, four_pairs(part_turned.second), is_query);
      } else {
        put(to + 2 * i, make_uint2(0, 0), is_query);
        put(to + 2 * i + 4, make_uint2(0, 0), is_query);
      }
    }
  }

  // Here, and where the other blocks of a cluster have the same: each begins with another of them.
  __device__ void put(bf16* to, uint2 four, bool here_alone) {
    *reinterpret_cast<uint2*>(to) = four;
    if constexpr (kShared) {
      if (here_alone) return;
      for (int i = 1; i < given_.cluster; ++i) {
        const int rank = rank_ + i < given_.cluster ? rank_ + i : rank_ + i - given_.cluster;
        store_at_rank(reinterpret_cast<uint2*>(to), rank, four);
      }
    }
  }

  // With zeros behind them, which weights of 0 are multiplied with.
  __device__ void fetch_values() {
    constexpr int kChunks = kDim / 8;
    constexpr int kRowsAtOnce = Layout::kThreads / kChunks;
    const int chunk = thread_ % kChunks * 8;
    const int rows = ceil_div(keys_count_, 16) * 16 + 16;
    int row = thread_ / kChunks;
    if (row >= kRowsAtOnce) row = rows;
    const bf16* from = call_.q + (sequence_.q_begin + int64_t{row}) * call_.q_stride +
                       (2 * call_.kv_heads + head_) * head_dim() + chunk;
#pragma unroll 8
    for (; row < rows; row += kRowsAtOnce, from += kRowsAtOnce * call_.q_stride) {
      const bool valid = row < keys_count_ && chunk < head_dim();
      copy_async_16(values_ + row * Layout::kStride + chunk, valid ? from : nullptr, valid);
    }
    end_copy_group();
    if (sequence_.key_bias == nullptr) return;
    for (int i = thread_; i < keys_count_; i += Layout::kThreads)
      shared_[Layout::kBias + i] = __ldcg(sequence_.key_bias + i);
  }

  // Sixteens of keys are shared evenly, and go in steps: scores are in registers.
  __device__ void see_keys(RowsWarp& warp) {
    const int sixteens = ceil_div(keys_count_, 16);
    const bool has_rows = thread_ / 32 % kRowWarps * 16 < rows_;
    const int begin = sixteens * key_warp() / kTurnedKeyWarps;
    const int end = has_rows ? sixteens * (key_warp() + 1) / kTurnedKeyWarps : begin;
    if (begin == end) wait_for_values();
    int taken = 0;
#pragma unroll 1
    for (int first = begin; first < end; first += taken) {
      const int left = end - first;
      taken = left <= Layout::kMost ? left : min((left + 1) / 2, Layout::kMost);
      if (Layout::kMost > 4 && taken > 4)
        see_step<Layout::kMost>(first, taken, first == begin, warp);
      else if (taken > 2)
        see_step<4>(first, taken, first == begin, warp);
      else
        see_step<2>(first, taken, first == begin, warp);
    }
  }
  template <int kSixteens>
  __device__ void see_step(int first, int taken, bool is_first, RowsWarp& warp) {
    const int begin = first * 16;
    const int end = min(begin + taken * 16, keys_count_);
    float weights[1][2 * kSixteens][4];
    warp.weigh_keys(keys_ + begin * Layout::kStride, shared_ + Layout::kBias + begin, begin, end,
                    begin + 16 * kSixteens > end, weights);
    if (is_first) wait_for_values();
    warp.multiply_values(values_ + begin * Layout::kStride, weights);
  }
  __device__ static void wait_for_values() {
    wait_for_copies<0>();
    __syncthreads();
  }

  const TurnedCall& given_;
  const AttentionCall& call_;
  const AttentionSequence& sequence_;
  int thread_;
  int head_;
  int row_begin_;
  int rows_;
  int keys_count_;
  int rank_ = 0;
  int share_begin_;  // of the keys that this block turns
  int parts_;        // that it turns
  float* shared_;
  bf16* queries_;
  bf16* keys_;
  bf16* values_;
};

}  // namespace fovea
