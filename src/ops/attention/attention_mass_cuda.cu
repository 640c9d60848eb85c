// SPDX-License-Identifier: Apache-2.0
// How much queries attend to keys, without the queries x keys matrix, for any device:
//   1. each row's largest score and sum of weights, the keys split between blocks
//   2. each key's weights, summed over the rows of a key head, in the order of rows
//   3. the sum over key heads, in their order, divided by queries and heads
// Arithmetic is f32; the same bits come out each time. Blocks are those of attention_scores_cuda.h.
#include <algorithm>

#include "base/check.h"
#include "ops/attention/attention_scores_cuda.h"

namespace fovea {
namespace {

constexpr SplitRule kMassSplit{.granule = kScoreKeys, .least = 128, .whole = 128};
// Blocks of the first step, whatever the device: more do not help a few rows.
constexpr int kMassBlocks = 256;

struct MassCall {
  AttentionCall attention;
  const AttentionMassRange* ranges;
  int max_rows;    // of a sequence and key head
  int max_range;   // keys
  float* weights;  // [splits][sequences][kv_heads][max_rows][2]
  float* sums;     // [sequences][kv_heads][max_range]
};

template <int kDims>
struct MassShared {
  alignas(16) bf16 q[kScoreRows * (kDims + 4)];
  alignas(16) bf16 keys[kScoreKeys * (kDims + 4)];
  float sums[kScoreThreads / 16][kScoreKeys];
  float logs[kScoreRows];
};
static_assert(sizeof(MassShared<128>) <= size_t{48} << 10);

__device__ int slot_of_block() { return static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y); }
__device__ float* weights_of(const MassCall& call, int split, int row) {
  const int64_t slots = static_cast<int64_t>(gridDim.z) * gridDim.y;
  return call.weights + ((split * slots + slot_of_block()) * call.max_rows + row) * 2;
}

template <int kDims>
__device__ void copy_queries(const AttentionCall& call, const AttentionSequence& sequence,
                             int row_begin, bf16* to) {
  const int rows = sequence.q_count * call.group - row_begin;
  copy_score_rows<kDims, kScoreRows, kDims + 4>(to, rows, call.head_dim, [&](int row) {
    return call.q + offset_of_row(call, sequence, static_cast<int>(blockIdx.y), row_begin + row,
                                  call.q_stride);
  });
}
template <int kDims>
__device__ void copy_keys(const AttentionCall& call, const AttentionSequence& sequence, int begin,
                          int end, bf16* to) {
  const bf16* head = sequence.keys + offset_of_head(call, sequence, static_cast<int>(blockIdx.y));
  copy_score_rows<kDims, kScoreKeys, kDims + 4>(to, end - begin, call.head_dim, [&](int row) {
    return head + int64_t{begin + row} * call.head_dim;
  });
}
__device__ void keys_of_rows(const AttentionCall& call, const AttentionSequence& sequence,
                             int row_begin, int end, int (&seen)[kRowsOfThread]) {
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = row_begin + static_cast<int>(threadIdx.x) / 16 * kRowsOfThread + i;
    const bool there = row < sequence.q_count * call.group;
    seen[i] = there ? min(end, keys_of_row(call, sequence, row)) : 0;
  }
}

template <int kDims>
__global__ void __launch_bounds__(kScoreThreads)
    weigh_rows(const __grid_constant__ MassCall call, int row_blocks) {
  auto& shared = *dynamic_shared<MassShared<kDims>>();
  const AttentionCall& attention = call.attention;
  const AttentionSequence sequence = read_sequence(attention);
  const int row_begin = static_cast<int>(blockIdx.x) % row_blocks * kScoreRows;
  const int split = static_cast<int>(blockIdx.x) / row_blocks;
  const int rows = min(kScoreRows, sequence.q_count * attention.group - row_begin);
  if (rows <= 0) return;
  const KeyPart part = part_of_keys<kMassSplit>(
      keys_of_row(attention, sequence, row_begin + rows - 1), attention.splits, split);
  copy_queries<kDims>(attention, sequence, row_begin, shared.q);
  int seen[kRowsOfThread];
  keys_of_rows(attention, sequence, row_begin, part.end, seen);
  SoftmaxRows softmax;
  softmax.clear();
  for (int begin = part.begin; begin < part.end; begin += kScoreKeys) {
    __syncthreads();
    copy_keys<kDims>(attention, sequence, begin, part.end, shared.keys);
    __syncthreads();
    ScoreTile scores;
    score_rows<kDims>(attention, sequence, shared.q, shared.keys, seen, begin, scores);
    float share[kRowsOfThread];
    softmax.add(scores, share);
  }
  if (threadIdx.x % 16 != 0) return;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = static_cast<int>(threadIdx.x) / 16 * kRowsOfThread + i;
    if (row < rows)
      *reinterpret_cast<float2*>(weights_of(call, split, row_begin + row)) =
          make_float2(softmax.largest[i], softmax.total[i]);
  }
}

// log2 of the sum of the powers of 2 of a row's scores.
__device__ float log_of_row(const MassCall& call, int row) {
  float largest = minus_infinity();
  for (int split = 0; split < call.attention.splits; ++split)
    largest = fmaxf(largest, weights_of(call, split, row)[0]);
  float total = 0;
  for (int split = 0; split < call.attention.splits; ++split) {
    const float* weights = weights_of(call, split, row);
    total += weights[1] * fast_exp2(weights[0] - largest);
  }
  return largest + log2f(total);
}

template <int kDims>
__global__ void __launch_bounds__(kScoreThreads)
    sum_weights(const __grid_constant__ MassCall call) {
  auto& shared = *dynamic_shared<MassShared<kDims>>();
  const AttentionCall& attention = call.attention;
  const AttentionSequence sequence = read_sequence(attention);
  const AttentionMassRange range = call.ranges[blockIdx.z];
  const int offset = static_cast<int>(blockIdx.x) * kScoreKeys;
  const int begin = range.key_begin + offset;
  const int end = min(range.key_end, sequence.key_count);
  if (begin >= end) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int all_rows = sequence.q_count * attention.group;
  copy_keys<kDims>(attention, sequence, begin, end, shared.keys);
  float sums[kKeysOfThread] = {};
  for (int row_begin = 0; row_begin < all_rows; row_begin += kScoreRows) {
    __syncthreads();
    copy_queries<kDims>(attention, sequence, row_begin, shared.q);
    if (thread < kScoreRows)
      shared.logs[thread] =
          row_begin + thread < all_rows ? log_of_row(call, row_begin + thread) : 0.0f;
    __syncthreads();
    int seen[kRowsOfThread];
    keys_of_rows(attention, sequence, row_begin, end, seen);
    ScoreTile scores;
    score_rows<kDims>(attention, sequence, shared.q, shared.keys, seen, begin, scores);
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const float log = shared.logs[thread / 16 * kRowsOfThread + i];
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) sums[j] += fast_exp2(scores[i][j] - log);
    }
  }
  shared.sums[thread / 16][thread % 16] = sums[0];
  shared.sums[thread / 16][thread % 16 + 16] = sums[1];
  __syncthreads();
  if (thread >= kScoreKeys || begin + thread >= end) return;
  float sum = 0;
  for (int i = 0; i < kScoreThreads / 16; ++i) sum += shared.sums[i][thread];
  call.sums[int64_t{slot_of_block()} * call.max_range + offset + thread] = sum;
}

__global__ void __launch_bounds__(kScoreThreads)
    average_heads(const __grid_constant__ MassCall call) {
  const AttentionCall& attention = call.attention;
  const AttentionSequence sequence = read_sequence(attention);
  const AttentionMassRange range = call.ranges[blockIdx.z];
  const int at = static_cast<int>(blockIdx.x * kScoreThreads + threadIdx.x);
  if (at >= min(range.key_end, sequence.key_count) - range.key_begin || sequence.q_count <= 0)
    return;
  const float* sums =
      call.sums + static_cast<int64_t>(blockIdx.z) * attention.kv_heads * call.max_range + at;
  float sum = 0;
  for (int head = 0; head < attention.kv_heads; ++head) sum += sums[int64_t{head} * call.max_range];
  const int heads = attention.kv_heads * attention.group;
  const float mass =
      range.share * sum / (static_cast<float>(sequence.q_count) * static_cast<float>(heads));
  range.mass[at] = range.add ? range.mass[at] + mass : mass;
}

int mass_splits(const AttentionShape& shape) {
  const int row_blocks = ceil_div(shape.max_q_count * (shape.heads / shape.kv_heads), kScoreRows);
  return attention_splits(shape, row_blocks * shape.kv_heads * shape.sequences, kMassBlocks,
                          kMassSplit);
}

size_t weight_floats(const AttentionShape& shape) {
  return static_cast<size_t>(mass_splits(shape)) * static_cast<size_t>(shape.sequences) *
         static_cast<size_t>(shape.heads) * static_cast<size_t>(shape.max_q_count) * 2;
}

template <int kDims>
void launch_mass(cudaStream_t stream, const AttentionShape& shape, const MassCall& call) {
  const auto heads = static_cast<unsigned>(shape.kv_heads);
  const auto sequences = static_cast<unsigned>(shape.sequences);
  const int row_blocks = ceil_div(call.max_rows, kScoreRows);
  launch(weigh_rows<kDims>,
         {.grid = dim3(static_cast<unsigned>(row_blocks * call.attention.splits), heads, sequences),
          .block = kScoreThreads,
          .shared_bytes = sizeof(MassShared<kDims>),
          .stream = stream},
         call, row_blocks);
  launch(
      sum_weights<kDims>,
      {.grid = dim3(static_cast<unsigned>(ceil_div(call.max_range, kScoreKeys)), heads, sequences),
       .block = kScoreThreads,
       .shared_bytes = sizeof(MassShared<kDims>),
       .stream = stream},
      call);
}

}  // namespace

size_t attention_mass_floats(const AttentionShape& shape, int max_range) {
  return weight_floats(shape) + static_cast<size_t>(shape.sequences) *
                                    static_cast<size_t>(shape.kv_heads) *
                                    static_cast<size_t>(max_range);
}

void attention_mass_cuda(cudaStream_t stream, const AttentionShape& shape,
                         const AttentionSequence* sequences_on_device,
                         const AttentionMassRange* ranges_on_device, int max_range, const bf16* q,
                         int64_t q_stride, AttentionWorkspace& workspace) {
  if (shape.sequences <= 0 || shape.max_q_count <= 0 || max_range <= 0) return;
  FOVEA_CHECK(workspace.part_floats() >= attention_mass_floats(shape, max_range));
  MassCall call{.attention = attention_call(shape, sequences_on_device, q, q_stride, nullptr, 0),
                .ranges = ranges_on_device,
                .max_rows = shape.max_q_count * (shape.heads / shape.kv_heads),
                .max_range = max_range,
                .weights = workspace.parts(),
                .sums = workspace.parts() + weight_floats(shape)};
  call.attention.splits = mass_splits(shape);
  if (shape.head_dim <= 64)
    launch_mass<64>(stream, shape, call);
  else
    launch_mass<128>(stream, shape, call);
  launch(average_heads,
         {.grid = dim3(static_cast<unsigned>(ceil_div(max_range, kScoreThreads)), 1,
                       static_cast<unsigned>(shape.sequences)),
          .block = kScoreThreads,
          .stream = stream},
         call);
}

}  // namespace fovea
