// SPDX-License-Identifier: Apache-2.0
// What a block of attention_rotary_cuda.cu does, and where it keeps what.
#pragma once

#include "device/cuda/cluster.h"
#include "ops/attention/attention_few_cuda.h"
#include "ops/attention/attention_join_cuda.h"
#include "ops/rotary_parts_cuda.h"

namespace fovea {

inline constexpr int kRotaryKeyWarps = 4;

struct RotaryCall {
  AttentionCall call;
  const float* cos;
  const float* sin;
  int alone;     // rows of the only sequence, where call.sequences is null
  int key_rows;  // there is room for
  int cluster;
};

// kWhole: heads have kDim values, not fewer. kShared: blocks are in clusters.
template <int kDim, bool kWhole, int kRowWarps, bool kShared>
struct RotaryLayout {
  static constexpr int kThreads = 32 * kRowWarps * kRotaryKeyWarps;
  static constexpr int kRows = 16 * kRowWarps;
  static constexpr int kStride = kDim + 8;
  // That registers leave room for on a multiprocessor.
  static constexpr int kBlocks = kRowWarps == 2 && kDim <= 64 && !kShared ? 2 : 1;
  // Parts of rows that a thread asks for before it rotates the first: 272 keys and their queries in
  // one round, two where a block has few threads.
  static constexpr int kParts = kShared                        ? 4
                                : kRowWarps == 2               ? 5
                                : kRowWarps == 3 && kDim <= 80 ? 7
                                                               : 6;

  // Sixteens of keys in a step.
  static constexpr int kMost = kDim <= 80 ? 5 : 4;
  static constexpr int kBeyond = 3 * 16;

  using Join = KeyWarpsJoin<kDim, kRowWarps, kRotaryKeyWarps>;
  // Floats: the weights of the join, biases; then bf16: queries, keys and values, whose place the
  // sums of the join take in the end. A warp's last step may reach kBeyond values too far.
  static constexpr int kBias = Join::kWeights;
  __host__ __device__ static constexpr int queries(int key_rows) { return kBias + key_rows; }
  __host__ __device__ static constexpr int keys(int key_rows) {
    return queries(key_rows) + kRows * kStride / 2;
  }
  static constexpr size_t bytes(int key_rows) {
    const int rows = (2 * key_rows + kBeyond) * kStride / 2;
    return static_cast<size_t>(keys(key_rows) + (rows > Join::kSums ? rows : Join::kSums)) *
           sizeof(float);
  }
};

// Four values of the first half of a head and those they are rotated with, and their angles.
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

// An address that is computed here, once: a compiler that adds up what it is made of for each row
// by itself needs several times the instructions before the first load.
template <class T>
__device__ T* settled(T* address) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(address));
#endif
  return address;
}

template <int kDim, bool kWhole, int kRowWarps, bool kShared>
class RotaryBlock {
 public:
  using Layout = RotaryLayout<kDim, kWhole, kRowWarps, kShared>;

  __device__ RotaryBlock(const RotaryCall& given, const AttentionCall& call,
                         const AttentionSequence& sequence)
      : given_(given), call_(call), sequence_(sequence) {
    if constexpr (kShared) rank_ = rank_in_cluster();
    const int cluster = kShared ? given.cluster : 1;
    share_begin_ = sequence_.q_count * rank_ / cluster;
    rotated_ = rows() + sequence_.q_count * (rank_ + 1) / cluster - share_begin_;
    const bool any_rows = row_begin() - rank_ * Layout::kRows < sequence.q_count;
    if (!any_rows || thread() / kPartsOfRow >= kRowsAtOnce) rotated_ = 0;
  }

  __device__ void run() {
    take_rows();
    wait_for_copies<0>();
    if constexpr (kShared)
      sync_cluster();
    else
      __syncthreads();
    if (rows() == 0) return;
    RowsWarp warp(call_, sequence_, queries(), row_begin(), first_row());
    see_keys(warp);
    warp.finish();
    __syncthreads();  // nobody reads keys or values any more
    typename Layout::Join join(shared(), shared() + Layout::keys(given_.key_rows));
    join.share(warp, key_warp());
    __syncthreads();
    join.write(call_, sequence_, head(), row_begin(), rows());
  }

 private:
  using RowsWarp = FlashWarp<kDim, 1, false>;
  // A thread takes the same part of each of its rows.
  static constexpr int kPartsOfRow = kDim / 8;
  static constexpr int kRowsAtOnce = Layout::kThreads / kPartsOfRow;

  // Places are told anew where they are needed: registers hold scores and sums.
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int head() { return static_cast<int>(blockIdx.y); }
  __device__ static int row_begin() { return static_cast<int>(blockIdx.x) * Layout::kRows; }
  __device__ int rows() const {
    return max(0, min(Layout::kRows, sequence_.q_count - row_begin()));
  }
  __device__ static float* shared() { return dynamic_shared<float>(); }
  __device__ bf16* queries() const {
    return reinterpret_cast<bf16*>(shared() + Layout::queries(given_.key_rows));
  }
  __device__ bf16* keys() const {
    return reinterpret_cast<bf16*>(shared() + Layout::keys(given_.key_rows));
  }
  __device__ bf16* values() const { return keys() + given_.key_rows * Layout::kStride; }
  __device__ static int warp_index() { return static_cast<int>(threadIdx.x / 32); }
  __device__ static int key_warp() { return warp_index() / kRowWarps; }
  __device__ static int first_row() { return warp_index() % kRowWarps * 16; }
  __device__ int head_dim() const { return kWhole ? kDim : call_.head_dim; }
  __device__ int half() const { return head_dim() / 2; }

  // Queries and keys come first; values are on their way while those are rotated.
  __device__ void take_rows() {
    PartLoads loads[Layout::kParts];
    int row = thread() / kPartsOfRow;
    if (row < rotated_) load_parts(row, loads);
    if (rows() > 0) fetch_values();
    if constexpr (kShared) wait_for_cluster();
    constexpr int kRound = Layout::kParts * kRowsAtOnce;
#pragma unroll 1
    for (; row < rotated_; row += kRound) {
      store_parts(row, loads);
      if (row + kRound < rotated_) load_parts(row + kRound, loads);
    }
  }

  // The rows go through those of queries, then the keys of this block's share. Those beyond the
  // last are the last once more.
  __device__ void load_parts(int first, PartLoads (&loads)[Layout::kParts]) const {
    const int i = min(thread() % kPartsOfRow * 4, half() - 4);
    const bf16* begin = call_.q + sequence_.q_begin * call_.q_stride + head() * head_dim() + i;
    const bf16* from_queries = settled(begin);
    const bf16* from_keys = settled(begin + call_.kv_heads * head_dim());
    const float* cos = settled(given_.cos + int64_t{sequence_.q_begin} * half() + i);
    const float* sin = settled(given_.sin + int64_t{sequence_.q_begin} * half() + i);
#pragma unroll
    for (int n = 0; n < Layout::kParts; ++n) {
      const int at = min(first + n * kRowsAtOnce, rotated_ - 1);
      const bool is_query = at < rows();
      const auto row = static_cast<unsigned>(at + (is_query ? row_begin() : share_begin_ - rows()));
      const bf16* from = (is_query ? from_queries : from_keys) +
                         uint64_t{row} * static_cast<unsigned>(call_.q_stride);
      const uint64_t angles = uint64_t{row} * static_cast<unsigned>(half());
      loads[n].first = load_packed<4>(from);
      loads[n].second = load_packed<4>(from + half());
      loads[n].cos = load_packed<8>(reinterpret_cast<const bf16*>(cos + angles));
      loads[n].sin = load_packed<8>(reinterpret_cast<const bf16*>(sin + angles));
    }
  }

  // The parts that a head shorter than kDim does not have are the zeros behind it.
  __device__ void store_parts(int first, const PartLoads (&loads)[Layout::kParts]) {
    const int i = thread() % kPartsOfRow * 4;
#pragma unroll
    for (int n = 0; n < Layout::kParts; ++n) {
      const int at = first + n * kRowsAtOnce;
      if (at >= rotated_) break;
      const bool is_query = at < rows();
      bf16* to = is_query ? queries() + at * Layout::kStride
                          : keys() + (share_begin_ + at - rows()) * Layout::kStride;
      if (kWhole || i < half()) {
        const HeadPart part = rotated({four_values(loads[n].first), four_values(loads[n].second)},
                                      four_floats(loads[n].cos), four_floats(loads[n].sin));
        put(to + i, four_pairs(part.first), is_query);
        put(to + half() + i, four_pairs(part.second), is_query);
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
    constexpr int kChunkRows = Layout::kThreads / kChunks;
    const int chunk = thread() % kChunks * 8;
    const bool is_mine = thread() / kChunks < kChunkRows && chunk < head_dim();
    int row = is_mine ? thread() / kChunks : sequence_.q_count + Layout::kBeyond + 16;
    const bf16* from = call_.q + (sequence_.q_begin + int64_t{row}) * call_.q_stride +
                       (2 * call_.kv_heads + head()) * head_dim() + chunk;
    bf16* to = values() + row * Layout::kStride + chunk;
    const int64_t step = kChunkRows * call_.q_stride;
#pragma unroll 2
    for (; row < sequence_.q_count; row += kChunkRows) {
      copy_async_16(to, from, true);
      from += step;
      to += kChunkRows * Layout::kStride;
    }
    end_copy_group();
    const int end = ceil_div(sequence_.q_count, 16) * 16 + Layout::kBeyond;
#pragma unroll 1
    for (; row < end; row += kChunkRows, to += kChunkRows * Layout::kStride)
      *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
    if (sequence_.key_bias == nullptr) return;
#pragma unroll 1
    for (int i = thread(); i < sequence_.q_count; i += Layout::kThreads)
      shared()[Layout::kBias + i] = __ldcg(sequence_.key_bias + i);
  }

  // Sixteens of keys are shared evenly, and go in steps: scores are in registers.
  __device__ void see_keys(RowsWarp& warp) {
    const int sixteens = ceil_div(sequence_.q_count, 16);
    const bool has_rows = first_row() < rows();
    const int begin = sixteens * key_warp() / kRotaryKeyWarps;
    const int end = has_rows ? sixteens * (key_warp() + 1) / kRotaryKeyWarps : begin;
    int taken = 0;
#pragma unroll 1
    for (int first = begin; first < end; first += taken) {
      const int left = end - first;
      taken = left <= Layout::kMost ? left : min((left + 1) / 2, Layout::kMost);
      if (Layout::kMost > 4 && taken > 4)
        see_step<Layout::kMost>(first, taken, warp);
      else
        see_step<4>(first, taken, warp);
    }
  }
  template <int kSixteens>
  __device__ void see_step(int first, int taken, RowsWarp& warp) {
    const int begin = first * 16;
    const int end = min(begin + taken * 16, sequence_.q_count);
    float weights[1][2 * kSixteens][4];
    warp.weigh_keys(keys() + begin * Layout::kStride, shared() + Layout::kBias + begin, begin, end,
                    begin + 16 * kSixteens > end, weights);
    warp.multiply_values(values() + begin * Layout::kStride, weights);
  }

  const RotaryCall& given_;
  const AttentionCall& call_;
  const AttentionSequence& sequence_;
  int rank_ = 0;
  int share_begin_;  // of the keys that this block rotates
  int rotated_;      // the rows, with those of queries, that it rotates
};

}  // namespace fovea
