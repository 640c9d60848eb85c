// SPDX-License-Identifier: Apache-2.0
// Attention of few queries to many keys: one key, value and score after another, straight from
// memory, since nothing is used twice.
//
// A block takes up to kRows rows of a key head and a part of its keys; a row of kLanes lanes a key,
// kVec values a lane. All loads of kKeysAtOnce keys and values are on their way before the first is
// used. Sums are f32. Any device.
#include "ops/attention_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kDecodeThreads = 256;
constexpr int kDecodeWarps = kDecodeThreads / 32;
constexpr int kKeysAtOnce = 128;
// Putting parts together takes as long as loading keys twice more.
constexpr SplitRule kDecodeSplit{.granule = kKeysAtOnce, .least = kKeysAtOnce, .whole = 256};

template <int kVec>
struct PackedValues {
  uint32_t pair[kVec / 2];
};

// In the order of the program: a compiler that saves registers would ask for values one by one.
template <int kVec>
__device__ PackedValues<kVec> load_packed(const bf16* from) {
  PackedValues<kVec> to;
#if defined(__CUDA_ARCH__)
  if constexpr (kVec == 8)
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.pair[0]), "=r"(to.pair[1]), "=r"(to.pair[2]), "=r"(to.pair[3])
                 : "l"(from));
  else
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to.pair[0]), "=r"(to.pair[1])
                 : "l"(from));
#else
  to = *reinterpret_cast<const PackedValues<kVec>*>(from);
#endif
  return to;
}

// What kLanes lanes know of their keys: each lane the sums of its kVec values.
template <int kRows, int kVec>
struct RowSums {
  float largest[kRows];
  float total[kRows];
  float sums[kRows][kVec];
};

template <int kRows, int kLanes, int kVec>
struct DecodeShared {
  float sums[kDecodeWarps][kRows][kLanes * kVec];
  float largest[kDecodeWarps][kRows];
  float total[kDecodeWarps][kRows];
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
      state_.largest[row] = minus_infinity();
      state_.total[row] = 0;
#pragma unroll
      for (int i = 0; i < kVec; ++i) state_.sums[row][i] = 0;
    }
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
    for (int row = 0; row < kRows; ++row) add(row, scores[row], values);
  }

  // The groups of a warp, then the warps, become one; thread t < kDims holds value t of each row.
  __device__ void join(DecodeShared<kRows, kLanes, kVec>& shared) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      float largest = state_.largest[row];
#pragma unroll
      for (int other = kLanes; other < 32; other *= 2)
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, other));
      const float share = state_.largest[row] == largest
                              ? (largest == minus_infinity() ? 0.0f : 1.0f)
                              : fast_exp2(state_.largest[row] - largest);
      float total = state_.total[row] * share;
#pragma unroll
      for (int other = kLanes; other < 32; other *= 2)
        total += __shfl_xor_sync(kAllLanes, total, other);
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        float sum = state_.sums[row][i] * share;
#pragma unroll
        for (int other = kLanes; other < 32; other *= 2)
          sum += __shfl_xor_sync(kAllLanes, sum, other);
        if (lane < kLanes) shared.sums[warp][row][dim_ + i] = sum;
      }
      if (lane == 0) {
        shared.largest[warp][row] = largest;
        shared.total[warp][row] = total;
      }
    }
    __syncthreads();
  }

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
        float dot = 0;
#pragma unroll
        for (int i = 0; i < kVec / 2; ++i) {
          dot += first_of(q[row].pair[i]) * first_of(keys[step].pair[i]);
          dot += second_of(q[row].pair[i]) * second_of(keys[step].pair[i]);
        }
#pragma unroll
        for (int other = 1; other < kLanes; other *= 2)
          dot += __shfl_xor_sync(kAllLanes, dot, other);
        scores[row][step] =
            key < min(end, keys_[row]) ? dot * call_.scale + bias : minus_infinity();
      }
    }
  }

  __device__ void add(int row, const float (&scores)[kSteps],
                      const PackedValues<kVec> (&values)[kSteps]) {
    float largest = state_.largest[row];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) largest = fmaxf(largest, scores[step]);
    if (largest == minus_infinity()) return;
    const float share = fast_exp2(state_.largest[row] - largest);
    state_.largest[row] = largest;
    state_.total[row] *= share;
#pragma unroll
    for (int i = 0; i < kVec; ++i) state_.sums[row][i] *= share;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float weight = fast_exp2(scores[step] - largest);
      state_.total[row] += weight;
#pragma unroll
      for (int i = 0; i < kVec / 2; ++i) {
        state_.sums[row][2 * i] += weight * first_of(values[step].pair[i]);
        state_.sums[row][2 * i + 1] += weight * second_of(values[step].pair[i]);
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
  RowSums<kRows, kVec> state_;
};

// One value of a row from those of the warps: its sum, not yet divided.
struct JoinedValue {
  float largest;
  float total;
  float sum;
};
template <class Shared>
__device__ JoinedValue join_warps(const Shared& shared, int row, int dim) {
  JoinedValue joined{minus_infinity(), 0, 0};
#pragma unroll
  for (int warp = 0; warp < kDecodeWarps; ++warp)
    joined.largest = fmaxf(joined.largest, shared.largest[warp][row]);
  if (joined.largest == minus_infinity()) return joined;
#pragma unroll
  for (int warp = 0; warp < kDecodeWarps; ++warp) {
    const float share = fast_exp2(shared.largest[warp][row] - joined.largest);
    joined.total += shared.total[warp][row] * share;
    joined.sum += shared.sums[warp][row][dim] * share;
  }
  return joined;
}

template <int kRows, int kLanes, int kVec>
__global__ void __launch_bounds__(kDecodeThreads)
    attend_few(const __grid_constant__ AttentionCall call, int row_groups) {
  using Decoder = DecodeBlock<kRows, kLanes, kVec>;
  __shared__ DecodeShared<kRows, kLanes, kVec> shared;
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
  Decoder decoder(call, sequence, kv_head, row_begin, rows);
  for (int begin = part.begin; begin < part.end; begin += kKeysAtOnce) decoder.see(begin, part.end);
  decoder.join(shared);

  const int slots = static_cast<int>(gridDim.z * gridDim.y) * row_groups;
  const int slot = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y) * row_groups + row_group;
  const PartPlace place = place_of_part(call, slots, slot, split, kRows, Decoder::kDims);
  for (int item = static_cast<int>(threadIdx.x); item < rows * Decoder::kDims / 2;
       item += kDecodeThreads) {
    const int row = item / (Decoder::kDims / 2);
    const int dim = item % (Decoder::kDims / 2) * 2;
    const JoinedValue first = join_warps(shared, row, dim);
    const JoinedValue second = join_warps(shared, row, dim + 1);
    if (part.active > 1) {
      *reinterpret_cast<float2*>(place.sums + row * Decoder::kDims + dim) =
          make_float2(first.sum, second.sum);
      if (dim == 0)
        *reinterpret_cast<float2*>(place.weights + row * 2) =
            make_float2(first.largest, first.total);
    } else if (dim < call.head_dim) {
      bf16* to =
          call.out + dim + offset_of_row(call, sequence, kv_head, row_begin + row, call.out_stride);
      *reinterpret_cast<uint32_t*>(to) =
          to_pair(first.sum / first.total, second.sum / second.total);
    }
  }
  if (part.active == 1 || !ends_last(call.done + slot, part.active)) return;
  write_combined(call, sequence, kv_head, slots, slot, kRows, Decoder::kDims, row_begin, rows,
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
