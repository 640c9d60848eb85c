// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to many keys on sm_90a: one sequence that sees all its keys.
//   scores = q k' of 128 keys, in registers; weights = 2^(scores - largest so far); sums += weights
//   v.
//
// A block is a warpgroup that copies and 3 that multiply, 64 rows each (2 where heads are longer
// than 64). Keys and values come 128 at a time through two places in shared memory. A warpgroup
// begins the products for the next scores and for the sums of the weights before, and weighs those
// scores while the sums are on their way; warpgroups take turns to begin, so that one multiplies
// while others weigh. Blocks stay and take tile after tile: first those of all their warpgroups'
// rows, then those of one warpgroup less, so that all multiprocessors end at about the same time.
// Products are bf16, sums f32, weights are rounded to bf16. Heads of 64, 72 and 80 values.
#include "ops/attention/attention_long_cuda.h"

#if defined(FOVEA_EMULATE)

namespace fovea {

bool attention_long_takes(const AttentionShape& /*shape*/, const AttentionSequence& /*sequence*/,
                          int64_t /*q_stride*/, const AttentionWorkspace& /*workspace*/) {
  return false;
}
bool attention_long_is_compiled() { return false; }
Status attention_long_cuda(cudaStream_t /*stream*/, const AttentionShape& /*shape*/,
                           const AttentionSequence& /*sequence*/, const bf16* /*q*/,
                           int64_t /*q_stride*/, bf16* /*out*/, int64_t /*out_stride*/,
                           AttentionWorkspace& /*workspace*/) {
  return failed("attention of many rows is not emulated");
}

}  // namespace fovea

#else

#include <algorithm>

#include "ops/attention/attention_long_parts_cuda.h"

namespace fovea {
namespace {

template <int kDim>
__device__ void copy_tiles(const LongTensors& wide, const LongTensors& rest, const LongCall& call,
                           LongLayout<kDim>& shared) {
  using Layout = LongLayout<kDim>;
  const int tiles = tiles_of(call);
  RingPlace place;
  int parity = 0;
  for (int index = static_cast<int>(blockIdx.x); index < tiles;
       index += static_cast<int>(gridDim.x), parity ^= 1) {
    const LongTile tile = tile_of<Layout::kGroups>(call, index);
    const int kv_head = tile.head / call.group;
    wait_for_phase(&shared.queries_are_free, parity ^ 1);
    arrive_and_promise(&shared.queries_are_here, Layout::kQueries + Layout::kRestQueries);
    copy_box(shared.queries, wide.queries, &shared.queries_are_here, 0, tile.head, tile.row);
    if constexpr (Layout::kRest > 0)
      copy_box(shared.rest_queries, rest.queries, &shared.queries_are_here, kLongWide, tile.head,
               tile.row);
    for (int key = 0; key < call.keys; key += kLongKeys, place.step()) {
      const int stage = place.stage;
      const auto copy = [&](SharedBarrier& here, SharedBarrier& free, unsigned char* to,
                            const TensorMap& map, unsigned char* rest_to,
                            const TensorMap& rest_map) {
        wait_for_phase(&free, place.parity ^ 1);
        arrive_and_promise(&here, Layout::kStep + Layout::kRestStep);
        copy_box(to, map, &here, 0, key, kv_head);
        if constexpr (Layout::kRest > 0)
          copy_box(rest_to, rest_map, &here, kLongWide, key, kv_head);
      };
      copy(shared.keys_are_here[stage], shared.keys_are_free[stage], shared.keys[stage], wide.keys,
           shared.rest_keys[stage], rest.keys);
      copy(shared.values_are_here[stage], shared.values_are_free[stage], shared.values[stage],
           wide.values, shared.rest_values[stage], rest.values);
    }
  }
}

template <int kDim>
__device__ void attend_tiles(const LongCall& call, LongLayout<kDim>& shared, int group) {
  constexpr int kGroups = LongLayout<kDim>::kGroups;
  LongRows<kDim> rows(call, shared, group);
  const int tiles = tiles_of(call);
  if (group == kGroups - 1) give_turn(1);
  for (int index = static_cast<int>(blockIdx.x); index < tiles;
       index += static_cast<int>(gridDim.x)) {
    const LongTile tile = tile_of<kGroups>(call, index);
    if (group < tile.groups)
      rows.attend(tile);
    else
      rows.pass();
  }
  if (group == 0) wait_for_turn(1);  // the one that was given last
}

template <int kDim>
__global__ void __launch_bounds__(LongLayout<kDim>::kThreads, 1)
    attend_long(const __grid_constant__ LongTensors wide, const __grid_constant__ LongTensors rest,
                const __grid_constant__ LongCall call) {
#if defined(FOVEA_WARPGROUPS)
  using Layout = LongLayout<kDim>;
  auto* bytes = dynamic_shared<unsigned char>();
  constexpr uint32_t kMask = kTensorAlignment - 1;
  bytes += (kTensorAlignment - (shared_address(bytes) & kMask)) & kMask;
  Layout& shared = *reinterpret_cast<Layout*>(bytes);
  if (threadIdx.x == 0) {
    constexpr int kWarps = Layout::kGroups * 4;
    make_barrier(&shared.queries_are_here, 1);
    make_barrier(&shared.queries_are_free, kWarps);
    for (int i = 0; i < kLongStages; ++i) {
      make_barrier(&shared.keys_are_here[i], 1);
      make_barrier(&shared.keys_are_free[i], kWarps);
      make_barrier(&shared.values_are_here[i], 1);
      make_barrier(&shared.values_are_free[i], kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  wait_for_previous();
  let_next_start();
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (group == Layout::kGroups) {
    give_registers<Layout::kCopyRegisters>();
    if (threadIdx.x % kWarpgroup == 0) copy_tiles<kDim>(wide, rest, call, shared);
  } else {
    take_registers<Layout::kRegisters>();
    attend_tiles<kDim>(call, shared, group);
  }
#else
  __trap();  // compiled without warpgroups: an error, not a wrong answer
#endif
}

// What a tile of one warpgroup less costs beside a large one: 0.76 was measured for two beside
// three, 0.83 for one beside two. The fewer multiply at a time, the less of the weighing is hidden.
constexpr double kSmallCost = 0.8;

// Block 0 has as many tiles as any, and as many large ones: its time decides.
void choose_tiles(int groups, int most, int blocks, LongCall& call) {
  double best = 0;
  for (int small = 0; small <= ceil_div(groups, most - 1); ++small) {
    const int large = ceil_div(std::max(0, groups - small * (most - 1)), most);
    const int rounds_of_large = ceil_div(call.heads * large, blocks);
    const int rounds = ceil_div(call.heads * (large + small), blocks);
    const double cost = rounds_of_large + kSmallCost * (rounds - rounds_of_large);
    if (small > 0 && cost >= best) continue;
    best = cost;
    call.large = large;
    call.small = small;
  }
}

Result<LongTensors> tensors_of(const AttentionShape& shape, const AttentionSequence& sequence,
                               const bf16* q, int64_t q_stride, int values, int rows) {
  const auto dim = static_cast<uint64_t>(shape.head_dim);
  const auto heads = static_cast<uint64_t>(shape.heads);
  const auto kv_heads = static_cast<uint64_t>(shape.kv_heads);
  const auto capacity = static_cast<uint64_t>(sequence.capacity);
  const auto width = static_cast<uint32_t>(values);
  const int64_t layer = int64_t{shape.layer} * shape.kv_heads * sequence.capacity * shape.head_dim;
  const auto of_keys = [&](const bf16* all) {
    return tensor_map({.data = all + layer,
                       .size = {dim, static_cast<uint64_t>(sequence.key_count), kv_heads},
                       .stride = {dim, capacity * dim},
                       .box = {width, kLongKeys, 1}});
  };
  const auto queries = tensor_map({.data = q + int64_t{sequence.q_begin} * q_stride,
                                   .size = {dim, heads, static_cast<uint64_t>(sequence.q_count)},
                                   .stride = {dim, static_cast<uint64_t>(q_stride)},
                                   .box = {width, 1, static_cast<uint32_t>(rows)}});
  if (!queries) return queries.error();
  const auto keys = of_keys(sequence.keys);
  if (!keys) return keys.error();
  const auto all_values = of_keys(sequence.values);
  if (!all_values) return all_values.error();
  return LongTensors{*queries, *keys, *all_values};
}

template <int kDim>
Status launch_long(cudaStream_t stream, const AttentionShape& shape,
                   const AttentionSequence& sequence, const bf16* q, int64_t q_stride,
                   LongCall call, int multiprocessors) {
  using Layout = LongLayout<kDim>;
  constexpr int kTileRows = Layout::kGroups * kLongRows;
  choose_tiles(ceil_div(call.queries, kLongRows), Layout::kGroups, multiprocessors, call);
  const auto wide = tensors_of(shape, sequence, q, q_stride, kLongWide, kTileRows);
  if (!wide) return wide.error();
  LongTensors rest{};
  if constexpr (Layout::kRest > 0) {
    const auto made = tensors_of(shape, sequence, q, q_stride, Layout::kRest, kTileRows);
    if (!made) return made.error();
    rest = *made;
  }
  const int tiles = call.heads * (call.large + call.small);
  launch(attend_long<kDim>,
         {.grid = static_cast<unsigned>(std::min(tiles, multiprocessors)),
          .block = Layout::kThreads,
          .shared_bytes = sizeof(Layout) + kTensorAlignment,
          .stream = stream,
          .overlaps = true},
         *wide, rest, call);
  return Done{};
}

}  // namespace

bool attention_long_is_compiled() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, attend_long<64>) == cudaSuccess &&
         attributes.binaryVersion == 90 && attributes.ptxVersion >= 90;
}

bool attention_long_takes(const AttentionShape& shape, const AttentionSequence& sequence,
                          int64_t q_stride, const AttentionWorkspace& workspace) {
  return workspace.warpgroups() && !shape.causal && sequence.key_bias == nullptr &&
         sequence.q_count > 0 && sequence.key_count > 0 &&
         (shape.head_dim == 64 || shape.head_dim == 72 || shape.head_dim == 80) &&
         q_stride % 8 == 0;
}

Status attention_long_cuda(cudaStream_t stream, const AttentionShape& shape,
                           const AttentionSequence& sequence, const bf16* q, int64_t q_stride,
                           bf16* out, int64_t out_stride, AttentionWorkspace& workspace) {
  const LongCall call{.out = out + int64_t{sequence.q_begin} * out_stride,
                      .out_stride = out_stride,
                      .queries = sequence.q_count,
                      .keys = sequence.key_count,
                      .heads = shape.heads,
                      .group = shape.heads / shape.kv_heads,
                      .head_dim = shape.head_dim,
                      .scale = shape.scale * kLog2E,
                      .large = 0,
                      .small = 0};
  const auto launch = shape.head_dim == 64 ? launch_long<64> : launch_long<80>;
  return launch(stream, shape, sequence, q, q_stride, call, workspace.multiprocessors());
}

}  // namespace fovea

#endif
