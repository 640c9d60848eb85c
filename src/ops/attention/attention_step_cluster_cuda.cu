// SPDX-License-Identifier: Apache-2.0
// attention_step_cuda where blocks can be clusters (from sm_90 on): the blocks of a key head are
// one, and what they have seen goes from one's shared memory to the other's, not through the
// memory of the device, whose round trips are long while the next kernel's weights fill it.
//
// The keys of a step of all warps are a stripe, and block r of n takes the stripes r, r + n, ...:
// all have as much to do however many keys there are. Each block puts a part of the values
// together and is sent that part by all others, so that none is read after it has ended.
#include <algorithm>

#include "device/cuda/cluster.h"
#include "ops/attention/attention_step_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kMostBlocks = 8;

// Keys of a lane that are on their way before the kernel before has ended: 160 of a block or more,
// of 64 where there are many rows and 8 warps; and after it, where results take registers too.
__host__ __device__ constexpr int steps_at_once(int warps, int rows) {
  return rows > 2 ? 4 : warps == 8 ? 10 : 5;
}
__host__ __device__ constexpr int steps_later(int warps) { return warps == 8 ? 4 : 2; }
// Half of the registers of a multiprocessor stay free for the next kernel, or a third with 16
// warps.
__host__ __device__ constexpr int blocks_at_once(int warps) { return warps == 8 ? 2 : 1; }
// Keys of a block that are on their way to L2 ahead of those to registers.
constexpr int kKeysAhead = 192;

struct ClusterCall {
  StepCall step;
  int bits;  // step.splits = 2^bits blocks
};

template <int kWarps, int kRows, int kDims>
struct ClusterShared : StepShared<kWarps, kRows, kDims> {
  // From each block: its sums of the values that this block puts together, and for each row the
  // largest score and the sum of weights.
  alignas(16) float given_sums[kRows * kDims];  // [blocks][rows][dims / blocks]
  float2 given_weights[kMostBlocks * kRows];
};

// What the block has seen, to those who put it together.
template <int kWarps, int kRows, int kDims>
__device__ void give_seen(const ClusterCall& call, int rank,
                          ClusterShared<kWarps, kRows, kDims>& shared) {
  constexpr int kPairs = kDims / 2;
  const int dims = kDims >> call.bits;
  for (int item = static_cast<int>(threadIdx.x); item < call.step.group * kPairs;
       item += kWarps * 32) {
    const int row = item / kPairs;
    const int dim = item % kPairs * 2;
    const int to = (dim << call.bits) / kDims;
    const int its_dim = dim & (dims - 1);
    const JoinedPair joined = join_warps(shared.warps, row, dim);
    const int at = rank * kRows + row;
    store_at_rank(reinterpret_cast<float2*>(shared.given_sums + at * dims + its_dim), to,
                  joined.sum);
    if (its_dim == 0)
      store_at_rank(shared.given_weights + at, to, make_float2(joined.largest, joined.total));
  }
}

// out = what all blocks gave, of this block's values; two of them a thread.
template <int kWarps, int kRows, int kDims>
__device__ void write_given(const ClusterCall& call, int rank,
                            const ClusterShared<kWarps, kRows, kDims>& shared) {
  static_assert(kRows * kDims <= kWarps * 64);
  const int dims = kDims >> call.bits;
  const int item = static_cast<int>(threadIdx.x) * 2;
  const int row = (item << call.bits) / kDims;
  const int its_dim = item & (dims - 1);
  const int dim = rank * dims + its_dim;
  if (row >= call.step.group || dim >= call.step.rotary.head_dim) return;
  float2 weights[kMostBlocks];
  float2 sums[kMostBlocks];
#pragma unroll
  for (int from = 0; from < kMostBlocks; ++from) {
    weights[from] = make_float2(minus_infinity(), 0);
    sums[from] = make_float2(0, 0);
    if (from >= call.step.splits) continue;
    const int at = from * kRows + row;
    weights[from] = shared.given_weights[at];
    sums[from] = *reinterpret_cast<const float2*>(shared.given_sums + at * dims + its_dim);
  }
  float largest = minus_infinity();
#pragma unroll
  for (const float2& weight : weights) largest = fmaxf(largest, weight.x);
  float total = 0;
  float2 sum = make_float2(0, 0);
#pragma unroll
  for (int from = 0; from < kMostBlocks; ++from) {
    const float share = fast_exp2(weights[from].x - largest);
    total += share * weights[from].y;
    sum.x += share * sums[from].x;
    sum.y += share * sums[from].y;
  }
  *reinterpret_cast<uint32_t*>(out_of(call.step, row) + dim) =
      to_pair(sum.x / total, sum.y / total);
}

template <int kWarps, int kRows, int kLanes>
__global__ void __launch_bounds__(kWarps * 32, blocks_at_once(kWarps))
    attend_in_clusters(const __grid_constant__ ClusterCall call) {
  using Block = StepBlock<kWarps, kRows, kLanes>;
  using Shared = ClusterShared<kWarps, kRows, Block::kDims>;
  constexpr int kStripe = Block::kKeysOfStep;
  constexpr int kSteps = steps_at_once(kWarps, kRows);
  constexpr int kStepsLater = steps_later(kWarps);
  constexpr int kStepsAhead = ceil_div(kKeysAhead, kStripe);
  Shared& shared = *dynamic_shared<Shared>();
  let_next_start();
  begin_cluster();
  const StepCall& step = call.step;
  const auto kv_head = static_cast<int>(blockIdx.y);
  const auto rank = static_cast<int>(blockIdx.x);  // the grid is one cluster wide
  const int apart = kStripe << call.bits;
  const int begin = rank * kStripe;
  const RowPlace* at = step.rotary.places + blockIdx.z;
  // All threads go by what one of them read: the position may change meanwhile.
  if (threadIdx.x == 0) shared.place = read_place(at);
  load_norms(step.rotary, shared);
  __syncthreads();
  const int early = shared.place.position;
  Block block(step.rotary.head_dim, offset_of_keys(step, shared.place, kv_head), apart);
  StepKeys<kSteps> keys;
  block.load(shared.place, begin, early, keys);
  const int later = begin + kSteps * apart;
  block.template prefetch<kStepsAhead>(shared.place, later, early);

  wait_for_previous();
  const int newest = __ldcg(&at->position);
  rotate_token<kLanes>(step, kv_head, shared);
  __syncthreads();
  if ((newest / kStripe & (step.splits - 1)) == rank) write_token(step, newest, kv_head, shared);
  block.see(shared, step, begin, newest, keys);
  for (int next = later; next <= newest; next += kStepsLater * apart) {
    StepKeys<kStepsLater> those;
    block.load(shared.place, next, newest - 1, those);
    block.template prefetch<kStepsLater>(shared.place, next + kStepsAhead * apart, newest - 1);
    block.see(shared, step, next, newest, those);
  }
  block.state.template join<kLanes>(shared.warps);
  wait_for_cluster();
  give_seen(call, rank, shared);
  sync_cluster();
  write_given(call, rank, shared);
}

// As many blocks as are wanted, have room on the device at once and have keys.
ClusterCall in_blocks(const StepShape& shape, const AttentionWorkspace& workspace, StepCall call,
                      int stripe) {
  const int slots = call.rotary.rows * call.rotary.kv_heads;
  const int most = std::min({shape.split.cluster, 2 * workspace.multiprocessors() / slots,
                             ceil_div(shape.max_keys, stripe)});
  int bits = 0;
  while ((2 << bits) <= most) ++bits;
  call.splits = 1 << bits;
  return {call, bits};
}

template <int kWarps, int kRows, int kLanes>
void launch_clusters(cudaStream_t stream, const StepShape& shape, const StepCall& step,
                     const AttentionWorkspace& workspace) {
  using Block = StepBlock<kWarps, kRows, kLanes>;
  const ClusterCall call = in_blocks(shape, workspace, step, Block::kKeysOfStep);
  launch(attend_in_clusters<kWarps, kRows, kLanes>,
         {.grid = dim3(static_cast<unsigned>(call.step.splits),
                       static_cast<unsigned>(step.rotary.kv_heads),
                       static_cast<unsigned>(step.rotary.rows)),
          .block = kWarps * 32,
          .shared_bytes = sizeof(ClusterShared<kWarps, kRows, Block::kDims>),
          .stream = stream,
          .overlaps = true,
          .cluster = call.step.splits},
         call);
}

}  // namespace

void attend_step_in_clusters(cudaStream_t stream, const StepShape& shape, const StepCall& call,
                             const AttentionWorkspace& workspace) {
  choose_step(shape.split.cluster_warps, call, [&](auto warps, auto rows, auto lanes) {
    launch_clusters<warps, rows, lanes>(stream, shape, call, workspace);
  });
}

bool attention_clusters_are_compiled() {
#if defined(FOVEA_EMULATE)
  return true;
#else
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, attend_in_clusters<8, 1, 8>) == cudaSuccess &&
         attributes.ptxVersion >= 90;
#endif
}

}  // namespace fovea
