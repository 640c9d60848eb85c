// SPDX-License-Identifier: Apache-2.0
// Attention by tensor cores, without ever holding the queries x keys matrix:
//   scores = q k' of 64 keys, in registers; weights = 2^(scores - largest so far); sums += weights
//   v.
//
// A block is 4 warps and takes kRowsOfWarp * 4 rows of a key head, a warp 16 or 32 of them: with
// 32, what is read from shared memory serves twice as many products. Keys and values come 64 at a
// time, the next ones while these are computed with. Rows in shared memory are 16 bytes longer than
// their values, so that the 8 rows of a matrix lie in different banks. Products are bf16, sums f32,
// weights are rounded to bf16. Heads of multiples of 8 values up to 128, filled up with zeros; rows
// of q and out begin at multiples of 16 bytes; sm_80 or later.
#include "ops/attention/attention_flash_warp_cuda.h"

namespace fovea {
namespace {

// Putting parts together costs as much as some steps.
constexpr SplitRule kFlashSplit{.granule = kKeysOfStep, .least = 256, .whole = 384};

template <int kDim, int kTiles>
using TilesWarp = FlashWarp<kDim, kTiles, FlashLayout<kDim, kTiles>::kKeepQ>;

template <int kDim, int kTiles>
__device__ void write_rows(const AttentionCall& call, const AttentionSequence& sequence,
                           const TilesWarp<kDim, kTiles>& warp, bf16* shared, int kv_head,
                           int row_begin, int rows) {
  using Layout = FlashLayout<kDim, kTiles>;
  // A warp's queries are read by nobody else: their place takes its results.
  __syncwarp();
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float inverse = 1.0f / warp.state.total[tile][half];
      bf16* to = shared + warp.row_of(tile, half) * Layout::kStride + warp.column();
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        const float(&sums)[4] = warp.state.sums[tile][i];
        *reinterpret_cast<uint32_t*>(to + i * 8) =
            to_pair(sums[2 * half] * inverse, sums[2 * half + 1] * inverse);
      }
    }
  }
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = static_cast<int>(threadIdx.x) / 32 * 16 * kTiles;
  const int chunks = call.head_dim / 8;
  for (int item = lane; item < 16 * kTiles * chunks; item += 32) {
    const int row = first_row + item / chunks;
    const int dim = item % chunks * 8;
    if (row >= rows) break;
    const int64_t at = offset_of_row(call, sequence, kv_head, row_begin + row, call.out_stride);
    *reinterpret_cast<uint4*>(call.out + at + dim) =
        *reinterpret_cast<const uint4*>(shared + row * Layout::kStride + dim);
  }
}

template <int kDim, int kTiles>
__device__ void write_part(const TilesWarp<kDim, kTiles>& warp, const PartPlace& place, int rows) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp.row_of(tile, half);
      if (row >= rows) continue;
      if (warp.column() == 0)
        *reinterpret_cast<float2*>(place.weights + row * 2) = make_float2(
            warp.state.largest[tile][half] * warp.factor(), warp.state.total[tile][half]);
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i)
        *reinterpret_cast<float2*>(place.sums + row * kDim + i * 8 + warp.column()) =
            make_float2(warp.state.sums[tile][i][2 * half], warp.state.sums[tile][i][2 * half + 1]);
    }
  }
}

template <int kDim, int kTiles>
__device__ void see_part(const AttentionCall& call, const AttentionSequence& sequence, int kv_head,
                         const KeyPart& part, int first_keys, bf16* shared,
                         TilesWarp<kDim, kTiles>& warp) {
  using Layout = FlashLayout<kDim, kTiles>;
  constexpr int kStep = kKeysOfStep * Layout::kStride;
  const int64_t head = offset_of_head(call, sequence, kv_head);
  const auto fetch = [&](int begin, int stage) {
    const auto row_of = [&](const bf16* all) {
      return [&, all](int row) -> const bf16* {
        const int key = begin + row;
        return key < part.end ? all + head + int64_t{key} * call.head_dim : nullptr;
      };
    };
    copy_rows<kDim, kKeysOfStep, kFlashThreads>(shared + Layout::kKeys + stage * kStep,
                                                call.head_dim, row_of(sequence.keys));
    copy_rows<kDim, kKeysOfStep, kFlashThreads>(shared + Layout::kValues + stage * kStep,
                                                call.head_dim, row_of(sequence.values));
    end_copy_group();
  };
  fetch(part.begin, 0);  // in one group with the queries
  int stage = 0;
  for (int begin = part.begin; begin < part.end; begin += kKeysOfStep, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // these are here for all, and nobody reads the other stage any more
    if (begin == part.begin) warp.keep_queries();
    if (begin + kKeysOfStep < part.end) fetch(begin + kKeysOfStep, stage ^ 1);
    float weights[kTiles][kKeysOfStep / 8][4];
    const float* bias = sequence.key_bias == nullptr ? nullptr : sequence.key_bias + begin;
    warp.weigh_keys(shared + Layout::kKeys + stage * kStep, bias, begin, part.end,
                    begin + kKeysOfStep > min(part.end, first_keys), weights);
    warp.multiply_values(shared + Layout::kValues + stage * kStep, weights);
  }
}

template <int kDim, int kTiles>
__global__ void __launch_bounds__(kFlashThreads)
    attend_tiles(const __grid_constant__ AttentionCall call, int row_blocks) {
  if constexpr (kTensorCores) {
    using Layout = FlashLayout<kDim, kTiles>;
    bf16* shared = dynamic_shared<bf16>();
    wait_for_previous();
    let_next_start();
    const AttentionSequence sequence = read_sequence(call);
    const int kv_head = static_cast<int>(blockIdx.y);
    // The last rows see most keys: they begin first.
    const int row_block = row_blocks - 1 - static_cast<int>(blockIdx.x) % row_blocks;
    const int split = static_cast<int>(blockIdx.x) / row_blocks;
    const int row_begin = row_block * Layout::kRows;
    const int rows = min(Layout::kRows, sequence.q_count * call.group - row_begin);
    if (rows <= 0) return;
    const KeyPart part = part_of_keys<kFlashSplit>(
        keys_of_row(call, sequence, row_begin + rows - 1), call.splits, split);
    if (part.end <= part.begin) return;
    copy_rows<kDim, Layout::kRows, kFlashThreads>(
        shared, call.head_dim, [&](int row) -> const bf16* {
          if (row >= rows) return nullptr;
          return call.q + offset_of_row(call, sequence, kv_head, row_begin + row, call.q_stride);
        });
    TilesWarp<kDim, kTiles> warp(call, sequence, shared, row_begin,
                                 static_cast<int>(threadIdx.x) / 32 * 16 * kTiles);
    see_part<kDim, kTiles>(call, sequence, kv_head, part, keys_of_row(call, sequence, row_begin),
                           shared, warp);
    warp.finish();
    if (part.active == 1) {
      write_rows<kDim, kTiles>(call, sequence, warp, shared, kv_head, row_begin, rows);
      return;
    }
    const int slots = static_cast<int>(gridDim.z * gridDim.y) * row_blocks;
    const int slot = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y) * row_blocks + row_block;
    write_part<kDim, kTiles>(warp, place_of_part(call, slots, slot, split, Layout::kRows, kDim),
                             rows);
    if (!ends_last(call.done + slot, part.active)) return;
    write_combined(call, sequence, kv_head, slots, slot, Layout::kRows, kDim, row_begin, rows,
                   part.active, reinterpret_cast<float*>(shared));
  }
}

template <int kDim, int kTiles>
void launch_tiles(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                  AttentionWorkspace& workspace) {
  using Layout = FlashLayout<kDim, kTiles>;
  const int row_blocks = ceil_div(shape.max_q_count * call.group, Layout::kRows);
  const int blocks = row_blocks * shape.kv_heads * shape.sequences;
  call.splits = kTiles > 1
                    ? 1
                    : attention_splits(shape, blocks, 2 * workspace.multiprocessors(), kFlashSplit);
  launch(
      attend_tiles<kDim, kTiles>,
      {.grid = dim3(static_cast<unsigned>(row_blocks * call.splits),
                    static_cast<unsigned>(shape.kv_heads), static_cast<unsigned>(shape.sequences)),
       .block = kFlashThreads,
       .shared_bytes = Layout::kBytes,
       .stream = stream,
       .overlaps = true},
      call, row_blocks);
}

template <int kDim>
void launch_dim(cudaStream_t stream, const AttentionShape& shape, const AttentionCall& call,
                AttentionWorkspace& workspace) {
  // Blocks of 128 rows where they are enough for two on each multiprocessor.
  const int64_t large_blocks =
      ceil_div(int64_t{shape.max_q_count} * call.group, int64_t{kFlashWarps * 32}) *
      shape.kv_heads * shape.sequences;
  if (large_blocks >= 2 * workspace.multiprocessors())
    launch_tiles<kDim, 2>(stream, shape, call, workspace);
  else
    launch_tiles<kDim, 1>(stream, shape, call, workspace);
}

}  // namespace

void attention_flash_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                          AttentionWorkspace& workspace) {
  call.parts = workspace.parts();
  call.done = workspace.done();
  if (shape.head_dim <= 16)
    launch_dim<16>(stream, shape, call, workspace);
  else if (shape.head_dim <= 32)
    launch_dim<32>(stream, shape, call, workspace);
  else if (shape.head_dim <= 64)
    launch_dim<64>(stream, shape, call, workspace);
  else if (shape.head_dim <= 80)
    launch_dim<80>(stream, shape, call, workspace);
  else
    launch_dim<128>(stream, shape, call, workspace);
}

bool attention_flash_is_compiled() {
#if defined(FOVEA_EMULATE)
  return false;
#else
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, attend_tiles<64, 1>) == cudaSuccess &&
         attributes.ptxVersion >= 80;
#endif
}

}  // namespace fovea
