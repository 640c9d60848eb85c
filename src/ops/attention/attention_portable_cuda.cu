// SPDX-License-Identifier: Apache-2.0
// Attention for any device: no tensor cores, less than 48 KB of shared memory, one pass over the
// keys, f32 arithmetic.
//
// A block takes 64 rows of a key head, 32 keys at a time (attention_scores_cuda.h); a thread sums 4
// rows by kValues values. Heads of multiples of 4 values up to 16 kValues.
#include "ops/attention/attention_scores_cuda.h"

namespace fovea {
namespace {

constexpr SplitRule kPortableSplit{.granule = kScoreKeys, .least = 128, .whole = 192};

template <int kValues>
struct PortableShared {
  static constexpr int kDims = kValues * 16;
  static constexpr int kWeightStride = kScoreKeys + 4;
  alignas(16) bf16 q[kScoreRows * (kDims + 4)];
  alignas(16) bf16 keys[kScoreKeys * (kDims + 4)];
  alignas(16) bf16 values[kScoreKeys * (kDims + 8)];
  alignas(16) float weights[kScoreRows * kWeightStride];
};
static_assert(sizeof(PortableShared<8>) <= size_t{48} << 10);
static_assert(kMostSplits <= PortableShared<4>::kWeightStride);

template <int kValues>
__device__ void load_values(const bf16* from, float (&values)[kValues]) {
#pragma unroll
  for (int i = 0; i < kValues; i += 4) {
    const uint2 four = *reinterpret_cast<const uint2*>(from + i);
    values[i] = first_of(four.x);
    values[i + 1] = second_of(four.x);
    values[i + 2] = first_of(four.y);
    values[i + 3] = second_of(four.y);
  }
}

// sums[i] += the weights of row i times the values, for this thread's dims.
template <int kValues>
__device__ void add_values(const PortableShared<kValues>& shared,
                           float (&sums)[kRowsOfThread][kValues]) {
  using Shared = PortableShared<kValues>;
  const int y = static_cast<int>(threadIdx.x) / 16;
  const int x = static_cast<int>(threadIdx.x) % 16;
  for (int key = 0; key < kScoreKeys; key += 4) {
    float4 weights[kRowsOfThread];
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i)
      weights[i] = *reinterpret_cast<const float4*>(
          shared.weights + (y * kRowsOfThread + i) * Shared::kWeightStride + key);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float values[kValues];
      load_values(shared.values + (key + j) * (Shared::kDims + 8) + x * kValues, values);
#pragma unroll
      for (int i = 0; i < kRowsOfThread; ++i) {
        const float weight = j == 0   ? weights[i].x
                             : j == 1 ? weights[i].y
                             : j == 2 ? weights[i].z
                                      : weights[i].w;
#pragma unroll
        for (int d = 0; d < kValues; ++d) sums[i][d] += weight * values[d];
      }
    }
  }
}

template <int kValues>
__device__ void write_sums(const AttentionCall& call, const AttentionSequence& sequence,
                           int kv_head, int row_begin, int rows, const SoftmaxRows& softmax,
                           const float (&sums)[kRowsOfThread][kValues]) {
  const int y = static_cast<int>(threadIdx.x) / 16;
  const int x = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = y * kRowsOfThread + i;
    if (row >= rows) continue;
    const float inverse = 1.0f / softmax.total[i];
    bf16* to = call.out + x * kValues +
               offset_of_row(call, sequence, kv_head, row_begin + row, call.out_stride);
#pragma unroll
    for (int d = 0; d < kValues; d += 4)
      if (x * kValues + d < call.head_dim)
        *reinterpret_cast<uint2*>(to + d) =
            make_uint2(to_pair(sums[i][d] * inverse, sums[i][d + 1] * inverse),
                       to_pair(sums[i][d + 2] * inverse, sums[i][d + 3] * inverse));
  }
}

template <int kValues>
__device__ void write_part(const PartPlace& place, int rows, const SoftmaxRows& softmax,
                           const float (&sums)[kRowsOfThread][kValues]) {
  const int y = static_cast<int>(threadIdx.x) / 16;
  const int x = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = y * kRowsOfThread + i;
    if (row >= rows) continue;
    if (x == 0)
      *reinterpret_cast<float2*>(place.weights + row * 2) =
          make_float2(softmax.largest[i], softmax.total[i]);
#pragma unroll
    for (int d = 0; d < kValues; d += 4)
      *reinterpret_cast<float4*>(place.sums + row * kValues * 16 + x * kValues + d) =
          make_float4(sums[i][d], sums[i][d + 1], sums[i][d + 2], sums[i][d + 3]);
  }
}

template <int kValues>
__device__ void see_part(const AttentionCall& call, const AttentionSequence& sequence, int kv_head,
                         const KeyPart& part, const int (&seen)[kRowsOfThread],
                         PortableShared<kValues>& shared, SoftmaxRows& softmax,
                         float (&sums)[kRowsOfThread][kValues]) {
  using Shared = PortableShared<kValues>;
  const int64_t head = offset_of_head(call, sequence, kv_head);
  const int y = static_cast<int>(threadIdx.x) / 16;
  const int x = static_cast<int>(threadIdx.x) % 16;
  for (int begin = part.begin; begin < part.end; begin += kScoreKeys) {
    const auto row_of = [&](const bf16* all) {
      return [=, &call](int row) { return all + head + int64_t{begin + row} * call.head_dim; };
    };
    const int there = part.end - begin;
    __syncthreads();  // the last keys are read no more
    copy_score_rows<Shared::kDims, kScoreKeys, Shared::kDims + 4>(shared.keys, there, call.head_dim,
                                                                  row_of(sequence.keys));
    copy_score_rows<Shared::kDims, kScoreKeys, Shared::kDims + 8>(
        shared.values, there, call.head_dim, row_of(sequence.values));
    __syncthreads();
    ScoreTile scores;
    score_rows<Shared::kDims>(call, sequence, shared.q, shared.keys, seen, begin, scores);
    float share[kRowsOfThread];
    softmax.add(scores, share);
    __syncwarp();  // a row's weights are written and read by one warp
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      float* weights = shared.weights + (y * kRowsOfThread + i) * Shared::kWeightStride;
      weights[x] = scores[i][0];
      weights[x + 16] = scores[i][1];
#pragma unroll
      for (int d = 0; d < kValues; ++d) sums[i][d] *= share[i];
    }
    __syncwarp();
    add_values(shared, sums);
  }
}

template <int kValues>
__global__ void __launch_bounds__(kScoreThreads)
    attend_portable(const __grid_constant__ AttentionCall call, int row_blocks) {
  using Shared = PortableShared<kValues>;
  Shared& shared = *dynamic_shared<Shared>();
  wait_for_previous();
  const AttentionSequence sequence = read_sequence(call);
  const int kv_head = static_cast<int>(blockIdx.y);
  // The last rows see most keys: they begin first.
  const int row_block = row_blocks - 1 - static_cast<int>(blockIdx.x) % row_blocks;
  const int split = static_cast<int>(blockIdx.x) / row_blocks;
  const int row_begin = row_block * kScoreRows;
  const int rows = min(kScoreRows, sequence.q_count * call.group - row_begin);
  if (rows <= 0) return;
  const KeyPart part = part_of_keys<kPortableSplit>(
      keys_of_row(call, sequence, row_begin + rows - 1), call.splits, split);
  if (part.end <= part.begin) return;
  copy_score_rows<Shared::kDims, kScoreRows, Shared::kDims + 4>(
      shared.q, rows, call.head_dim, [&](int row) {
        return call.q + offset_of_row(call, sequence, kv_head, row_begin + row, call.q_stride);
      });
  int seen[kRowsOfThread];
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = row_begin + static_cast<int>(threadIdx.x) / 16 * kRowsOfThread + i;
    seen[i] = min(part.end, keys_of_row(call, sequence, row));
  }
  SoftmaxRows softmax;
  softmax.clear();
  float sums[kRowsOfThread][kValues] = {};
  see_part(call, sequence, kv_head, part, seen, shared, softmax, sums);
  if (part.active == 1) {
    write_sums(call, sequence, kv_head, row_begin, rows, softmax, sums);
    return;
  }
  const int slots = static_cast<int>(gridDim.z * gridDim.y) * row_blocks;
  const int slot = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y) * row_blocks + row_block;
  write_part(place_of_part(call, slots, slot, split, kScoreRows, Shared::kDims), rows, softmax,
             sums);
  if (!ends_last(call.done + slot, part.active)) return;
  write_combined(call, sequence, kv_head, slots, slot, kScoreRows, Shared::kDims, row_begin, rows,
                 part.active, shared.weights);
}

template <int kValues>
void launch_portable(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                     AttentionWorkspace& workspace) {
  const int row_blocks = ceil_div(shape.max_q_count * call.group, kScoreRows);
  const int blocks = row_blocks * shape.kv_heads * shape.sequences;
  call.splits = attention_splits(shape, blocks, 2 * workspace.multiprocessors(), kPortableSplit);
  launch(
      attend_portable<kValues>,
      {.grid = dim3(static_cast<unsigned>(row_blocks * call.splits),
                    static_cast<unsigned>(shape.kv_heads), static_cast<unsigned>(shape.sequences)),
       .block = kScoreThreads,
       .shared_bytes = sizeof(PortableShared<kValues>),
       .stream = stream},
      call, row_blocks);
}

}  // namespace

void attention_portable_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                             AttentionWorkspace& workspace) {
  call.parts = workspace.parts();
  call.done = workspace.done();
  if (shape.head_dim <= 64)
    launch_portable<4>(stream, shape, call, workspace);
  else
    launch_portable<8>(stream, shape, call, workspace);
}

}  // namespace fovea
