// SPDX-License-Identifier: Apache-2.0
// Attention of blocks of rows to chosen keys on sm_90a: what attend_spans_cuda computes.
//
// A block is a warpgroup that copies and 2 that multiply, each for a block of 64 queries with a
// list of its own: 128 rows of a head. Joined lists would be copied once for both, but each query
// would be multiplied with the keys of two lists: where an eighth of 64 blocks is chosen and
// choices have nothing to do with each other, with 960 keys in place of 512. So keys in full come
// for one warpgroup, 128 at a time, and coarse keys, which are the same for both, once: 5/6 of the
// bytes of two lists there. Three warpgroups, which win where all share their keys, have too few
// registers for biases and would copy 7/9. Steps go through five places of shared memory. A
// warpgroup begins the products for the next scores and for the sums of the weights before, and
// weighs those scores while the sums are on their way; where all have as many steps they take turns
// to begin. Products are bf16, sums f32, weights are rounded to bf16. Heads of 64 values; no
// windows.
#include "ops/attention/sparse/sparse_cuda.h"

#if defined(FOVEA_EMULATE)

namespace fovea {

bool sparse_long_is_compiled() { return false; }
bool sparse_long_takes(const SparseCall& /*call*/) { return false; }
Status sparse_long_cuda(cudaStream_t /*stream*/, const SparseCall& /*call*/,
                        int /*multiprocessors*/) {
  return failed("attention by warpgroups is not emulated");
}

}  // namespace fovea

#else

#include <algorithm>

#include "ops/attention/sparse/sparse_long_parts_cuda.h"

namespace fovea {
namespace {

// What one thread does: it has all that the warpgroups read copied.
template <bool kRagged>
class SparseCopies {
  using Tile = SparseTile<kRagged>;

 public:
  __device__ SparseCopies(const SparseCall& call, const SparseTensors& tensors,
                          SparseLayout& shared)
      : call_(call), tensors_(tensors), shared_(shared) {}

  __device__ void copy(const Tile& tile) {
    const unsigned place = tile_ % 2;
    SharedBarrier* are_here = &shared_.queries_are_here[place];
    wait_for_phase(&shared_.queries_are_free[place], static_cast<int>(tile_ / 2 % 2) ^ 1);
    ++tile_;
    arrive_and_promise(are_here, tile.groups * kSpanBytes);
    for (int i = 0; i < tile.groups; ++i)
      copy_box(shared_.queries[place][i], tensors_.queries, are_here, 0, tile.head,
               call_.rows.spans[tile.block + i].first);
    const int most = tile.most_rounds();
    // Where the spans of the next round begin is asked for before these are copied.
    int2 next[kSparseGroups];
    ask(tile, 0, next);
    for (int round = 0; round < most; ++round) {
      int2 now[kSparseGroups];
#pragma unroll
      for (int i = 0; i < kSparseGroups; ++i) now[i] = next[i];
      ask(tile, round + 1, next);
#pragma unroll
      for (int i = 0; i < kSparseGroups; ++i)
        if (i < tile.groups && round < tile.rounds[i])
          copy_step(tensors_.keys, tensors_.values, tile.head, now[i].x, now[i].y);
    }
    for (int step = 0; step < coarse_steps(call_); ++step)
      copy_step(tensors_.coarse_keys, tensors_.coarse_values, tile.head, step * kSparseKeys,
                step * kSparseKeys + RowBlocks::kMaxBlockRows);
  }

 private:
  // Where the two spans of each warpgroup's round begin; the last one of an odd list comes twice,
  // so that all that is multiplied is finite.
  __device__ void ask(const Tile& tile, int round, int2 (&begins)[kSparseGroups]) {
#pragma unroll
    for (int i = 0; i < kSparseGroups; ++i) {
      if (i >= tile.groups || round >= tile.rounds[i]) continue;
      const SpanChoice choice(call_, tile.head, tile.block + i);
      const RowSpan* spans = choice.list + 2 * round;
      const bool has_second = !kRagged || 2 * round + 1 < choice.spans(call_);
      begins[i] = make_int2(spans[0].first, spans[has_second ? 1 : 0].first);
    }
  }
  __device__ void copy_step(const TensorMap& keys, const TensorMap& values, int head, int first,
                            int second) {
    const int stage = place_.stage();
    const int free = place_.parity() ^ 1;
    const auto copy = [&](const TensorMap& map, unsigned char* to, SharedBarrier& is_here,
                          SharedBarrier& is_free) {
      wait_for_phase(&is_free, free);
      arrive_and_promise(&is_here, 2 * kSpanBytes);
      copy_box(to, map, &is_here, 0, first, head);
      copy_box(to + kSpanBytes, map, &is_here, 0, second, head);
    };
    copy(keys, shared_.keys[stage], shared_.keys_are_here[stage], shared_.keys_are_free[stage]);
    copy(values, shared_.values[stage], shared_.values_are_here[stage],
         shared_.values_are_free[stage]);
    ++place_.step;
  }

  const SparseCall& call_;
  const SparseTensors& tensors_;
  SparseLayout& shared_;
  unsigned tile_ = 0;  // how many came before
  SparsePlace place_;
};

#if defined(FOVEA_WARPGROUPS)
__device__ void make_sparse_barriers(SparseLayout& shared) {
  constexpr int kWarps = kSparseGroups * 4;
  for (int i = 0; i < 2; ++i) {
    make_barrier(&shared.queries_are_here[i], 1);
    make_barrier(&shared.queries_are_free[i], kWarps);
  }
  for (int i = 0; i < kSparseStages; ++i) {
    make_barrier(&shared.keys_are_here[i], 1);
    make_barrier(&shared.keys_are_free[i], kWarps);
    make_barrier(&shared.values_are_here[i], 1);
    make_barrier(&shared.values_are_free[i], kWarps);
  }
  publish_barriers();
}
#endif

__host__ __device__ int tiles_of(const SparseCall& call) {
  return call.rows.heads * ceil_div(call.rows.blocks, kSparseGroups);
}

template <bool kRagged>
__global__ void __launch_bounds__(kSparseThreads, 1)
    attend_sparse(const __grid_constant__ SparseTensors tensors,
                  const __grid_constant__ SparseCall call) {
#if defined(FOVEA_WARPGROUPS)
  auto* bytes = dynamic_shared<unsigned char>();
  constexpr uint32_t kMask = kTensorAlignment - 1;
  bytes += (kTensorAlignment - (shared_address(bytes) & kMask)) & kMask;
  SparseLayout& shared = *reinterpret_cast<SparseLayout*>(bytes);
  if (threadIdx.x == 0) make_sparse_barriers(shared);
  __syncthreads();
  wait_for_previous();
  let_next_start();
  const int all = tiles_of(call);
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  const auto for_tiles = [&](const auto& take) {
    for (int i = static_cast<int>(blockIdx.x); i < all; i += static_cast<int>(gridDim.x))
      take(SparseTile<kRagged>(call, i));
  };
  if (group == kSparseGroups) {
    give_registers<40>();
    if (threadIdx.x % kWarpgroup == 0) {
      SparseCopies<kRagged> copies(call, tensors, shared);
      for_tiles([&](const SparseTile<kRagged>& tile) { copies.copy(tile); });
    }
  } else {
    take_registers<232>();
    SparseBlock<kRagged> rows(call, shared, group);
    if (group == kSparseGroups - 1) give_turn(1);
    for_tiles([&](const SparseTile<kRagged>& tile) {
      if (group < tile.groups)
        rows.attend(tile);
      else
        rows.pass(tile);
    });
    if (group == 0) wait_for_turn(1);  // the one that was given last
  }
#else
  __trap();  // compiled without warpgroups: an error, not a wrong answer
#endif
}

Result<SparseTensors> tensors_of(const SparseCall& call) {
  const SparseRows& rows = call.rows;
  const auto dim = static_cast<uint64_t>(rows.head_dim);
  const auto heads = static_cast<uint64_t>(rows.heads);
  constexpr uint32_t kRows = RowBlocks::kMaxBlockRows;
  const auto of_keys = [&](const bf16* data, int count, int64_t row_stride, int64_t head_stride) {
    return tensor_map(
        {.data = data,
         .size = {dim, static_cast<uint64_t>(count), heads},
         .stride = {static_cast<uint64_t>(row_stride), static_cast<uint64_t>(head_stride)},
         .box = {kSparseDim, kRows, 1}});
  };
  const int64_t head_stride = int64_t{rows.capacity} * rows.head_dim;
  const auto queries = tensor_map({.data = rows.q,
                                   .size = {dim, heads, static_cast<uint64_t>(rows.rows)},
                                   .stride = {dim, static_cast<uint64_t>(rows.q_stride)},
                                   .box = {kSparseDim, 1, kRows}});
  if (!queries) return queries.error();
  const auto keys = of_keys(rows.keys, rows.rows, rows.head_dim, head_stride);
  if (!keys) return keys.error();
  const auto values = of_keys(rows.values, rows.rows, rows.head_dim, head_stride);
  if (!values) return values.error();
  SparseTensors tensors{*queries, *keys, *values, *keys, *values};
  if (call.coarse.count == 0) return tensors;
  const CoarseKeys& coarse = call.coarse;
  const auto coarse_keys =
      of_keys(coarse.keys, coarse.count, coarse.row_stride, coarse.head_stride);
  if (!coarse_keys) return coarse_keys.error();
  const auto coarse_values =
      of_keys(coarse.values, coarse.count, coarse.row_stride, coarse.head_stride);
  if (!coarse_values) return coarse_values.error();
  tensors.coarse_keys = *coarse_keys;
  tensors.coarse_values = *coarse_values;
  return tensors;
}

}  // namespace

bool sparse_long_is_compiled() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, attend_sparse<false>) == cudaSuccess &&
         attributes.binaryVersion == 90 && attributes.ptxVersion >= 90;
}

bool sparse_long_takes(const SparseCall& call) {
  // A warpgroup that skips more steps of the other one than the ring has places loses count: lists
  // must be of one length.
  const bool may_differ = call.full.counts != nullptr;
  // Testing each pair of rows takes registers that warps have: windows are faster there.
  const bool has_window = call.window.radius > 0;
  return call.rows.head_dim == kSparseDim && call.rows.q_stride % 8 == 0 && !has_window &&
         !may_differ;
}

Status sparse_long_cuda(cudaStream_t stream, const SparseCall& call, int multiprocessors) {
  const auto tensors = tensors_of(call);
  if (!tensors) return tensors.error();
  const bool ragged = call.full.room > 0 && !call.full.is_even;
  const auto kernel = ragged ? attend_sparse<true> : attend_sparse<false>;
  launch(kernel,
         {.grid = static_cast<unsigned>(std::min(tiles_of(call), multiprocessors)),
          .block = kSparseThreads,
          .shared_bytes = sizeof(SparseLayout) + kTensorAlignment,
          .stream = stream,
          .overlaps = true},
         *tensors, call);
  return Done{};
}

}  // namespace fovea

#endif
