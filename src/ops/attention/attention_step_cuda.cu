// SPDX-License-Identifier: Apache-2.0
// A new token's attention: q' = rotate(norm(q)), k' = rotate(norm(k)), out = softmax(scale q' K^T)
// V, where K and V are what the sequence has seen, k' and v.
//
// A block takes the heads that share a key head, kRows or less, and a part of the keys; a row of
// kLanes lanes takes a key, 8 values a lane. Its first keys and values are on their way to
// registers before the kernel before this one has ended; then a warp each rotates a head's query,
// the new key and the new value, rounded to bf16 as in memory. The part that holds the new key
// writes it there, and all see it in shared memory. The block of a key head that ends last puts the
// parts together. Sums are f32. Any device; half of the registers of a multiprocessor stay free for
// the next kernel. Where there are clusters attention_step_cluster_cuda.cu does it with less
// waiting.
#include "ops/attention/attention_step_cuda.h"

#include <algorithm>

#include "base/check.h"
#include "ops/attention/attention_step_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kStepsAtOnce = 4;  // keys of a lane, before the kernel before has ended
constexpr int kStepsLater = 2;   // ... and after, where results take registers too
// Keys of a part that are on their way to L2 ahead of those to registers: enough to hide the
// memory's latency behind few loads, and little enough that blocks do not push each other's out.
constexpr int kKeysAhead = 192;

// The keys and values [begin, end) of a head will be read soon.
__device__ void prefetch_keys(const StepCall& call, const RowPlace& place, int kv_head, int begin,
                              int end) {
  const int64_t first =
      offset_of_keys(call, place, kv_head) + int64_t{begin} * call.rotary.head_dim;
  const int values = (end - begin) * call.rotary.head_dim;
  constexpr int kLineValues = kLineBytes / static_cast<int>(sizeof(bf16));
  for (int at = static_cast<int>(threadIdx.x) * kLineValues; at < values;
       at += static_cast<int>(blockDim.x) * kLineValues) {
    prefetch_line(place.keys + first + at);
    prefetch_line(place.values + first + at);
  }
}

// Where the parts of a row of qkv and a key head lie.
struct StepParts {
  float* sums;     // [splits][rows][dims]
  float* weights;  // [splits][rows][2]: the largest score, the sum of weights
};
__device__ StepParts parts_of(const StepCall& call, int rows, int dims) {
  const auto slots = static_cast<int64_t>(gridDim.z * gridDim.y);
  const auto slot = static_cast<int64_t>(blockIdx.z * gridDim.y + blockIdx.y);
  return {call.parts + slot * call.splits * rows * dims,
          call.parts + (slots * rows * dims + slot * rows * 2) * call.splits};
}

// out = all parts together. Sums do not wait for their weights; threads that have the same four
// values of a row share its parts.
template <int kWarps, int kRows, int kDims>
__device__ void combine_step(const StepCall& call, int active,
                             StepShared<kWarps, kRows, kDims>& shared) {
  constexpr int kQuads = kDims / 4;
  constexpr int kItems = kRows * kQuads;
  constexpr int kSharers = std::min(kWarps, kWarps * 32 / kItems);
  constexpr int kPartsOfThread = ceil_div(kMostSplits, kSharers);
  static_assert(kSharers >= 1 && sizeof(float4) * kSharers * kItems <= sizeof(shared.warps.sums));
  const StepParts parts = parts_of(call, kRows, kDims);
  const int thread = static_cast<int>(threadIdx.x);
  const int item = thread % kItems;
  const int row = item / kQuads;
  const int dim = item % kQuads * 4;
  const int sharer = thread / kItems;
  float4 sums[kPartsOfThread];
#pragma unroll
  for (int i = 0; i < kPartsOfThread; ++i) {
    const int part = i * kSharers + sharer;
    sums[i] = zero_four();
    if (part < active && sharer < kSharers && row < call.group)
      sums[i] =
          __ldcg(reinterpret_cast<const float4*>(parts.sums + (part * kRows + row) * kDims + dim));
  }
  const int lane = thread % 32;
  if (const int its_row = thread / 32; its_row < call.group) {
    float2 weight = make_float2(minus_infinity(), 0);
    if (lane < active)
      weight =
          __ldcg(reinterpret_cast<const float2*>(parts.weights + (lane * kRows + its_row) * 2));
    const float share = fast_exp2(weight.x - warp_max(weight.x));
    shared.shares[its_row * kMostSplits + lane] = share / warp_sum(weight.y * share);
  }
  __syncthreads();
  float4 sum = zero_four();
#pragma unroll
  for (int i = 0; i < kPartsOfThread; ++i) {
    const int part = i * kSharers + sharer;
    const float share = part < active ? shared.shares[row * kMostSplits + part] : 0.0f;
    sum.x += share * sums[i].x;
    sum.y += share * sums[i].y;
    sum.z += share * sums[i].z;
    sum.w += share * sums[i].w;
  }
  auto* together = reinterpret_cast<float4*>(shared.warps.sums);
  if (sharer < kSharers) together[thread] = sum;
  __syncthreads();
  if (thread >= kItems || row >= call.group || dim >= call.rotary.head_dim) return;
#pragma unroll
  for (int other = 1; other < kSharers; ++other) {
    const float4 more = together[other * kItems + thread];
    sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
  }
  write_four(out_of(call, row) + dim, sum);
}

// What the block has seen: the result where it is the only one, a part otherwise.
template <int kWarps, int kRows, int kDims>
__device__ void write_seen(const StepCall& call, int active,
                           const StepShared<kWarps, kRows, kDims>& shared) {
  constexpr int kPairs = kDims / 2;
  const StepParts parts = parts_of(call, kRows, kDims);
  const auto split = static_cast<int>(blockIdx.x);
  for (int item = static_cast<int>(threadIdx.x); item < call.group * kPairs; item += kWarps * 32) {
    const int row = item / kPairs;
    const int dim = item % kPairs * 2;
    const JoinedPair joined = join_warps(shared.warps, row, dim);
    const int at = split * kRows + row;
    if (active > 1) {
      *reinterpret_cast<float2*>(parts.sums + at * kDims + dim) =
          make_float2(joined.sum.x, joined.sum.y);
      if (dim == 0)
        *reinterpret_cast<float2*>(parts.weights + at * 2) =
            make_float2(joined.largest, joined.total);
    } else if (dim < call.rotary.head_dim) {
      *reinterpret_cast<uint32_t*>(out_of(call, row) + dim) =
          to_pair(joined.sum.x / joined.total, joined.sum.y / joined.total);
    }
  }
}

template <int kWarps, int kRows, int kLanes>
__global__ void __launch_bounds__(kWarps * 32, (kRows <= 2 ? 32 : 16) / kWarps)
    attend_step(const __grid_constant__ StepCall call) {
  using Block = StepBlock<kWarps, kRows, kLanes>;
  constexpr int kKeysAtOnce = kStepsAtOnce * Block::kKeysOfStep;
  constexpr int kKeysLater = kStepsLater * Block::kKeysOfStep;
  __shared__ typename Block::Shared shared;
  let_next_start();
  const auto kv_head = static_cast<int>(blockIdx.y);
  const int begin = static_cast<int>(blockIdx.x) * call.part_keys;
  const RowPlace* at = call.rotary.places + blockIdx.z;
  // All threads go by what one of them read: the position may change meanwhile.
  if (threadIdx.x == 0) shared.place = read_place(at);
  load_norms(call.rotary, shared);
  __syncthreads();
  const int early = shared.place.position;
  if (begin > early + 1) return;  // beyond the newest key, which is at most one on
  Block block(call.rotary.head_dim, offset_of_keys(call, shared.place, kv_head));
  StepKeys<kStepsAtOnce> keys;
  block.load(shared.place, begin, early, keys);
  const bool is_last = blockIdx.x + 1 == gridDim.x;
  const int early_end = is_last ? early + 1 : min(early + 1, begin + call.part_keys);
  const int later = begin + kKeysAtOnce;
  prefetch_keys(call, shared.place, kv_head, later, min(early_end, later + kKeysAhead));

  wait_for_previous();
  const int newest = __ldcg(&at->position);
  rotate_token<kLanes>(call, kv_head, shared);
  __syncthreads();
  if (begin > newest) return;
  const int end = is_last ? newest + 1 : min(newest + 1, begin + call.part_keys);
  if (newest < end) write_token(call, newest, kv_head, shared);
  block.see(shared, call, begin, newest, keys);
  for (int next = later; next < end; next += kKeysLater) {
    StepKeys<kStepsLater> those;
    block.load(shared.place, next, newest - 1, those);
    const int ahead = next + kKeysAhead;
    prefetch_keys(call, shared.place, kv_head, ahead, min(end, ahead + kKeysLater));
    block.see(shared, call, next, newest, those);
  }
  block.state.template join<kLanes>(shared.warps);
  const int active = min(call.splits, ceil_div(newest + 1, call.part_keys));
  write_seen(call, active, shared);
  if (active > 1 && ends_last(call.done + blockIdx.z * gridDim.y + blockIdx.y, active))
    combine_step(call, active, shared);
}

// Parts of so many keys that the device has room for all blocks at once.
template <int kKeysAtOnce>
void share_keys(const StepShape& shape, const AttentionWorkspace& workspace, StepCall& call) {
  const int slots = call.rotary.rows * call.rotary.kv_heads;
  const int keys = std::max(shape.max_keys, 1);
  const int most = std::clamp(2 * workspace.multiprocessors() / slots, 1, kMostSplits);
  const bool whole = keys <= shape.split.whole_keys;
  const int wanted = std::max(whole ? keys : shape.split.part_keys, ceil_div(keys, most));
  call.part_keys = ceil_div(wanted, kKeysAtOnce) * kKeysAtOnce;
  call.splits = ceil_div(keys, call.part_keys);
}

template <int kWarps, int kRows, int kLanes>
void launch_step(cudaStream_t stream, const StepShape& shape, StepCall call,
                 const AttentionWorkspace& workspace) {
  share_keys<kStepsAtOnce * StepBlock<kWarps, kRows, kLanes>::kKeysOfStep>(shape, workspace, call);
  launch(
      attend_step<kWarps, kRows, kLanes>,
      {.grid = dim3(static_cast<unsigned>(call.splits), static_cast<unsigned>(call.rotary.kv_heads),
                    static_cast<unsigned>(call.rotary.rows)),
       .block = kWarps * 32,
       .stream = stream,
       .overlaps = true},
      call);
}

RotaryJob with_strides(RotaryJob rotary) {
  if (rotary.stride == 0)
    rotary.stride = int64_t{rotary.heads + 2 * rotary.kv_heads} * rotary.head_dim;
  return rotary;
}

}  // namespace

void attend_step_in_parts(cudaStream_t stream, const StepShape& shape, const StepCall& call,
                          const AttentionWorkspace& workspace) {
  choose_step(shape.split.warps, call, [&](auto warps, auto rows, auto lanes) {
    launch_step<warps, rows, lanes>(stream, shape, call, workspace);
  });
}

bool attention_step_takes(const RotaryJob& rotary) {
  return rotary.kv_heads > 0 && rotary.heads % rotary.kv_heads == 0 &&
         rotary.heads / rotary.kv_heads <= kMostStepRows && rotary.head_dim % 8 == 0 &&
         rotary.head_dim <= 128 && with_strides(rotary).stride % 8 == 0;
}

void attention_step_cuda(cudaStream_t stream, const StepShape& shape,
                         AttentionWorkspace& workspace) {
  FOVEA_CHECK(attention_step_takes(shape.rotary) && shape.scale > 0);
  FOVEA_CHECK(shape.split.warps == 8 || shape.split.warps == 16);
  FOVEA_CHECK(shape.split.cluster_warps == 8 || shape.split.cluster_warps == 16);
  FOVEA_CHECK(shape.split.cluster >= 0 && shape.split.cluster <= 8);
  const RotaryJob rotary = with_strides(shape.rotary);
  if (rotary.rows == 0) return;
  const StepCall call{.rotary = rotary,
                      .out = shape.out,
                      .out_stride = shape.out_stride != 0 ? shape.out_stride
                                                          : int64_t{rotary.heads} * rotary.head_dim,
                      .scale = shape.scale * kLog2E,
                      .group = rotary.heads / rotary.kv_heads,
                      .part_keys = 0,
                      .splits = 1,
                      .parts = workspace.parts(),
                      .done = workspace.done()};
  if (shape.split.cluster > 0 && workspace.clusters())
    attend_step_in_clusters(stream, shape, call, workspace);
  else
    attend_step_in_parts(stream, shape, call, workspace);
}

}  // namespace fovea
