// SPDX-License-Identifier: Apache-2.0
// Attention of few queries to many keys: one key, value and score after another, straight from
// memory, since nothing is used twice.
//
// A block takes up to kRows rows of a key head and a part of its keys; a row of kLanes lanes a key,
// kVec values a lane. All loads of kKeysAtOnce keys and values are on their way before the first is
// used. Sums are f32. Any device.
#include "ops/attention/attention_few_cuda.h"

namespace fovea {
namespace {

constexpr int kDecodeThreads = 256;
constexpr int kDecodeWarps = kDecodeThreads / 32;
constexpr int kKeysAtOnce = 128;
// Putting parts together takes as long as loading keys twice more.
constexpr SplitRule kDecodeSplit{.granule = kKeysAtOnce, .least = kKeysAtOnce, .whole = 256};

template <int kRows, int kDims>
struct DecodeShared {
  alignas(16) FewShared<kDecodeWarps, kRows, kDims> warps;
  float shares[kRows * kMostSplits];
};

template <int kRows, int kLanes, int kVec>
class DecodeBlock {
 public:
  static constexpr int kGroups = 32 / kLanes;                            // keys of a warp at once
  static constexpr int kSteps = kKeysAtOnce / (kDecodeWarps * kGroups);  // keys of a lane at once
  static constexpr int kDims = kLanes * kVec;

  __device__ DecodeBlock(const AttentionCall& call, const AttentionSequence& sequence, int kv_head,
                         int row_begin, int rows)
      : call_(call), sequence_(sequence), kv_head_(kv_head) {
    const int thread = static_cast<int>(threadIdx.x);
    dim_ = thread % kLanes * kVec;
    key_ = thread / kLanes;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int there = row_begin + min(row, rows - 1);
      q_[row] = call.q + (dim_ < call.head_dim ? dim_ : 0) +
                offset_of_row(call, sequence, kv_head, there, call.q_stride);
      keys_[row] = keys_of_row(call, sequence, row_begin + row);
    }
    state.clear();
  }

  // Sees the keys [begin, begin + kKeysAtOnce) that are below `end`.
  __device__ void see(int begin, int end) {
    const int64_t head = offset_of_head(call_, sequence_, kv_head_) +
                         (dim_ < call_.head_dim ? dim_ : 0);  // idle lanes have no query
    PackedValues<kVec>
        q[kRows];  // anew each time: to wait for them before the first keys costs more
    PackedValues<kVec> keys[kSteps];
    PackedValues<kVec> values[kSteps];
#pragma unroll
    for (int row = 0; row < kRows; ++row) q[row] = load_packed<kVec>(q_[row]);
    const auto offset_at = [&](int step) {
      // Beyond the end the last key is read again, and weighs nothing.
      return head + int64_t{min(key_at(begin, step), end - 1)} * call_.head_dim;
    };
    // Values first, and no load moves behind the barrier: scores, which need keys alone, would
    // begin before the values are asked for.
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      values[step] = load_packed<kVec>(sequence_.values + offset_at(step));
    __syncwarp();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      keys[step] = load_packed<kVec>(sequence_.keys + offset_at(step));
    float scores[kRows][kSteps];
    score(q, keys, begin, end, scores);
#pragma unroll
    for (int row = 0; row < kRows; ++row) state.add(row, scores[row], values);
  }

  RowSums<kRows, kVec> state;

 private:
  __device__ int key_at(int begin, int step) const {
    return begin + key_ + step * kDecodeWarps * kGroups;
  }

  __device__ void score(PackedValues<kVec> (&q)[kRows], const PackedValues<kVec> (&keys)[kSteps],
                        int begin, int end, float (&scores)[kRows][kSteps]) {
    if (dim_ >= call_.head_dim) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) q[row] = PackedValues<kVec>{};
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int key = key_at(begin, step);
      float bias = 0;
      if (sequence_.key_bias != nullptr && key < end) bias = sequence_.key_bias[key] * kLog2E;
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const float dot = dot_of_row<kLanes>(q[row], keys[step]);
        scores[row][step] =
            key < min(end, keys_[row]) ? dot * call_.scale + bias : minus_infinity();
      }
    }
  }

  const AttentionCall& call_;
  const AttentionSequence& sequence_;
  int kv_head_;
  int dim_ = 0;
  int key_ = 0;
  int keys_[kRows];  // that each row sees
  const bf16* q_[kRows];
};

template <int kRows, int kLanes, int kVec>
__global__ void __launch_bounds__(kDecodeThreads)
    attend_few(const __grid_constant__ AttentionCall call, int row_groups) {
  using Block = DecodeBlock<kRows, kLanes, kVec>;
  __shared__ DecodeShared<kRows, Block::kDims> shared;
  let_next_start();
  wait_for_previous();
  const AttentionSequence sequence = read_sequence(call);
  const int kv_head = static_cast<int>(blockIdx.y);
  const int row_group = static_cast<int>(blockIdx.x) % row_groups;
  const int split = static_cast<int>(blockIdx.x) / row_groups;
  const int row_begin = row_group * kRows;
  const int rows = min(kRows, sequence.q_count * call.group - row_begin);
  if (rows <= 0) return;
  const int keys = keys_of_row(call, sequence, row_begin + rows - 1);
  const KeyPart part = part_of_keys<kDecodeSplit>(keys, call.splits, split);
  if (part.end <= part.begin) return;
  Block block(call, sequence, kv_head, row_begin, rows);
  for (int begin = part.begin; begin < part.end; begin += kKeysAtOnce) block.see(begin, part.end);
  block.state.template join<kLanes>(shared.warps);

  const int slots = static_cast<int>(gridDim.z * gridDim.y) * row_groups;
  const int slot = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y) * row_groups + row_group;
  const PartPlace place = place_of_part(call, slots, slot, split, kRows, Block::kDims);
  for (int item = static_cast<int>(threadIdx.x); item < rows * Block::kDims / 2;
       item += kDecodeThreads) {
    const int row = item / (Block::kDims / 2);
    const int dim = item % (Block::kDims / 2) * 2;
    const JoinedPair joined = join_warps(shared.warps, row, dim);
    if (part.active > 1) {
      *reinterpret_cast<float2*>(place.sums + row * Block::kDims + dim) = joined.sum;
      if (dim == 0)
        *reinterpret_cast<float2*>(place.weights + row * 2) =
            make_float2(joined.largest, joined.total);
    } else if (dim < call.head_dim) {
      bf16* to =
          call.out + dim + offset_of_row(call, sequence, kv_head, row_begin + row, call.out_stride);
      *reinterpret_cast<uint32_t*>(to) =
          to_pair(joined.sum.x / joined.total, joined.sum.y / joined.total);
    }
  }
  if (part.active == 1 || !ends_last(call.done + slot, part.active)) return;
  write_combined(call, sequence, kv_head, slots, slot, kRows, Block::kDims, row_begin, rows,
                 part.active, shared.shares);
}

template <int kRows>
void launch_few(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                AttentionWorkspace& workspace) {
  const int row_groups = ceil_div(shape.max_q_count * call.group, kRows);
  const int blocks = row_groups * shape.kv_heads * shape.sequences;
  call.splits = attention_splits(shape, blocks, 2 * workspace.multiprocessors(), kDecodeSplit);
  const LaunchShape launch_shape{
      .grid = dim3(static_cast<unsigned>(row_groups * call.splits),
                   static_cast<unsigned>(shape.kv_heads), static_cast<unsigned>(shape.sequences)),
      .block = kDecodeThreads,
      .stream = stream,
      .overlaps = true};
  const bool eights = shape.head_dim % 8 == 0 && call.q_stride % 8 == 0;
  if (eights && shape.head_dim <= 64)
    launch(attend_few<kRows, 8, 8>, launch_shape, call, row_groups);
  else if (eights)
    launch(attend_few<kRows, 16, 8>, launch_shape, call, row_groups);
  else
    launch(attend_few<kRows, 32, 4>, launch_shape, call, row_groups);
}

}  // namespace

void attention_decode_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                           AttentionWorkspace& workspace) {
  call.parts = workspace.parts();
  call.done = workspace.done();
  const int rows = shape.max_q_count * call.group;
  if (rows <= 1)
    launch_few<1>(stream, shape, call, workspace);
  else if (rows <= 2)
    launch_few<2>(stream, shape, call, workspace);
  else
    launch_few<4>(stream, shape, call, workspace);
}

}  // namespace fovea
