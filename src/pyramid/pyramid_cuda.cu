// SPDX-License-Identifier: Apache-2.0
#include "pyramid/pyramid_cuda.h"

#include "base/check.h"
#include "device/cuda/fetch.h"
#include "device/cuda/kernel.h"
#include "pyramid/halve_cuda.h"

// A block makes five levels of 256x32 px of level 0 by itself: the sides of a canvas are multiples
// of 32, so that no side is odd before level 5. What is coarser, a 1024th of the pixels and less,
// is made by the block of an image that ends last.
//
// A thread owns 16x4 px: it halves them twice in registers. The rest goes through shared memory,
// out of which rows are stored in 16-byte pieces. 256 px are 24 bytes at level 5, so that level is
// stored in pieces of 8 bytes.
//
// Bytes: every pixel of level 0 is read once, every coarser one written once; beyond level 5 those
// of the level before are read again. Arithmetic: 63 operations for 96 bytes read, in integers.

namespace fovea {
namespace {

constexpr int kWidthPx = 256;  // of a block of threads
constexpr int kHeightPx = 32;
constexpr int kThreads = 128;
constexpr int kRows = 4;         // of level 0 a thread owns
constexpr int kAloneLevel = 5;   // the coarsest level that a block makes by itself
constexpr int kFineWords = 192;  // of a row of a block: 3 * 256 / 4
constexpr int kTileBlocks = kTileWidthPx / kWidthPx;
static_assert(kTileHeightPx == kHeightPx && kTileWidthPx % kWidthPx == 0);

// Rows of a block's pixels, level by level, without padding.
struct alignas(16) BlockLevels {
  uint32_t one[16][kFineWords / 2];
  uint32_t two[8][kFineWords / 4];
  uint32_t three[4][kFineWords / 8];
  uint32_t four[2][kFineWords / 16];
  uint32_t five[kFineWords / 32];
};

// What a block works at.
struct Where {
  const DevicePyramids& pyramids;
  int image;
  int x_px;
  int y_px;

  // This block's corner in a level.
  __device__ uint8_t* at(int level) const {
    return pyramids.rgb[level] + image * pyramids.image_bytes[level] +
           (y_px >> level) * pyramids.stride_bytes[level] + 3 * (x_px >> level);
  }
  // Bytes of a row of this block that lie on the canvas.
  __device__ int valid_bytes(int level) const {
    return 3 * (side_at(pyramids.canvas.width_px, level) - (x_px >> level));
  }
};

// This thread's 48 bytes of each of its rows.
__device__ void load_direct(const Where& where, uint32_t (*words)[12]) {
  const int column = static_cast<int>(threadIdx.x) % 16;
  const int first_row = static_cast<int>(threadIdx.x) / 16 * kRows;
  const bool valid = 48 * column < where.valid_bytes(0);
  const uint8_t* from =
      where.at(0) + first_row * where.pyramids.stride_bytes[0] + 48 * int64_t{column};
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const auto* pieces =
        reinterpret_cast<const uint4*>(from + row * where.pyramids.stride_bytes[0]);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const uint4 piece = valid ? __ldg(pieces + i) : make_uint4(0, 0, 0, 0);
      words[row][4 * i] = piece.x;
      words[row][4 * i + 1] = piece.y;
      words[row][4 * i + 2] = piece.z;
      words[row][4 * i + 3] = piece.w;
    }
  }
}

// The same by way of shared memory: [32][192] words.
__device__ void load_staged(const Where& where, uint4* staged, uint32_t (*words)[12]) {
  constexpr int kPieces = kFineWords / 4;  // of a row
  const int thread = static_cast<int>(threadIdx.x);
  const uint8_t* from = where.at(0);
  const int valid_bytes = where.valid_bytes(0);
#pragma unroll
  for (int i = 0; i < kHeightPx * kPieces / kThreads; ++i) {
    const int piece = thread + i * kThreads;
    const int64_t bytes = 16 * int64_t{piece % kPieces};
    if (bytes < valid_bytes)
      fetch_16(staged + piece, from + piece / kPieces * where.pyramids.stride_bytes[0] + bytes);
    else
      staged[piece] = make_uint4(0, 0, 0, 0);
  }
  wait_for_fetched();
  __syncthreads();
  const uint4* mine = staged + thread / 16 * kRows * kPieces + thread % 16 * 3;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const uint4 piece = mine[row * kPieces + i];
      words[row][4 * i] = piece.x;
      words[row][4 * i + 1] = piece.y;
      words[row][4 * i + 2] = piece.z;
      words[row][4 * i + 3] = piece.w;
    }
  }
}

// Levels 1 and 2 of a thread's pixels.
__device__ void halve_twice(const uint32_t (*words)[12], BlockLevels& levels) {
  const int column = static_cast<int>(threadIdx.x) % 16;
  const int row = static_cast<int>(threadIdx.x) / 16;
  uint32_t one[2][6];
#pragma unroll
  for (int y = 0; y < 2; ++y) {
    halve_eight(words[2 * y], words[2 * y + 1], one[y]);
    halve_eight(words[2 * y] + 6, words[2 * y + 1] + 6, one[y] + 3);
    auto* to = reinterpret_cast<uint2*>(&levels.one[2 * row + y][6 * column]);
#pragma unroll
    for (int i = 0; i < 3; ++i) to[i] = make_uint2(one[y][2 * i], one[y][2 * i + 1]);
  }
  uint32_t two[3];
  halve_eight(one[0], one[1], two);
#pragma unroll
  for (int i = 0; i < 3; ++i) levels.two[row][3 * column + i] = two[i];
}

// Four pixels of a level in shared memory from eight of two rows of the one before.
template <int kCols>
__device__ void halve_shared(const uint32_t (*fine)[2 * kCols], int row, int group,
                             uint32_t* coarse) {
  uint32_t rows[2][6];
#pragma unroll
  for (int y = 0; y < 2; ++y) {
    const auto* from = reinterpret_cast<const uint2*>(&fine[2 * row + y][6 * group]);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const uint2 pair = from[i];
      rows[y][2 * i] = pair.x;
      rows[y][2 * i + 1] = pair.y;
    }
  }
  halve_eight(rows[0], rows[1], coarse + 3 * group);
}

// Stores rows of shared memory, `thread` of `threads` that share the work. A piece that hangs over
// the canvas ends in the padding of its row.
template <class Piece, int kRowsOfLevel, int kWords>
__device__ void store_level(const Where& where, int level, const uint32_t (*rows)[kWords],
                            int thread, int threads) {
  if (level >= where.pyramids.levels) return;
  constexpr int kPieces = kWords * 4 / static_cast<int>(sizeof(Piece));
  uint8_t* to = where.at(level);
  const int valid_bytes = where.valid_bytes(level);
#pragma unroll 4
  for (int i = thread; i < kRowsOfLevel * kPieces; i += threads) {
    const int bytes = i % kPieces * static_cast<int>(sizeof(Piece));
    if (bytes >= valid_bytes) continue;
    const int64_t row = i / kPieces;
    *reinterpret_cast<Piece*>(to + row * where.pyramids.stride_bytes[level] + bytes) =
        reinterpret_cast<const Piece*>(rows[row])[i % kPieces];
  }
}

// Levels 3 to 5, by the last warp of a block while the others store: 32, 8 and 2 groups of four.
__device__ void finish_block(const Where& where, BlockLevels& levels, int lane) {
  halve_shared<24>(levels.two, lane / 8, lane % 8, levels.three[lane / 8]);
  __syncwarp();
  store_level<uint4, 4>(where, 3, levels.three, lane, 32);
  if (lane < 8) halve_shared<12>(levels.three, lane / 4, lane % 4, levels.four[lane / 4]);
  __syncwarp();
  store_level<uint4, 2>(where, 4, levels.four, lane, 32);
  if (lane < 2) halve_shared<6>(levels.four, 0, lane, levels.five);
  __syncwarp();
  store_level<uint2, 1>(where, 5, &levels.five, lane, 32);
}

template <PyramidLoads kLoads>
__device__ void make_block(const Where& where) {
  constexpr size_t kStagedBytes = size_t{4} * kHeightPx * kFineWords;
  constexpr size_t kBytes = kLoads == PyramidLoads::kStaged ? kStagedBytes : sizeof(BlockLevels);
  __shared__ uint4 memory[kBytes / sizeof(uint4)];
  auto& levels = *reinterpret_cast<BlockLevels*>(memory);
  uint32_t words[kRows][12];
  if constexpr (kLoads == PyramidLoads::kStaged) {
    load_staged(where, memory, words);
    __syncthreads();  // before the levels overwrite it
  } else {
    load_direct(where, words);
  }
  halve_twice(words, levels);
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= kThreads - 32) finish_block(where, levels, thread % 32);
  store_level<uint4, 16>(where, 1, levels.one, thread, kThreads);
  store_level<uint4, 8>(where, 2, levels.two, thread, kThreads);
}

// Whether this block is the last of `blocks`, and so sees what all of them wrote.
__device__ bool ends_last(unsigned* done, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(done, blocks - 1) == blocks - 1;
  __syncthreads();
  __threadfence();
  return last;
}

template <PyramidLoads kLoads>
__global__ void __launch_bounds__(kThreads)
    make_levels(const __grid_constant__ DevicePyramids pyramids, unsigned* done) {
  const auto image = static_cast<int>(blockIdx.z);
  make_block<kLoads>({pyramids, image, static_cast<int>(blockIdx.x) * kWidthPx,
                      static_cast<int>(blockIdx.y) * kHeightPx});
  if (pyramids.levels <= kAloneLevel + 1) return;
  if (!ends_last(done + image, gridDim.x * gridDim.y)) return;
  for (int level = kAloneLevel + 1; level < pyramids.levels; ++level) {
    const int groups = ceil_div(side_at(pyramids.canvas.width_px, level), 4);
    const int count = groups * side_at(pyramids.canvas.height_px, level);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
      halve_group(pyramids, image, level, i / groups, i % groups);
    __syncthreads();
  }
}

// The same for the blocks of some tiles, and the coarse pixels that depend on them.
__global__ void __launch_bounds__(kThreads)
    update_levels(const __grid_constant__ DevicePyramids pyramids, int image, const Tile* tiles,
                  int count, unsigned* done) {
  const auto block = static_cast<int>(blockIdx.x);
  const Tile mine = tiles[block / kTileBlocks];
  const int x_px = mine.col * kTileWidthPx + block % kTileBlocks * kWidthPx;
  if (x_px < pyramids.canvas.width_px)
    make_block<PyramidLoads::kDirect>({pyramids, image, x_px, mine.row * kTileHeightPx});
  if (pyramids.levels <= kAloneLevel + 1) return;
  if (!ends_last(done + image, gridDim.x)) return;
  for (int level = kAloneLevel + 1; level < pyramids.levels; ++level) {
    const int tile_px = max(1, kTileWidthPx >> level);
    const int groups = ceil_div(tile_px, 4);
    const int width_px = side_at(pyramids.canvas.width_px, level);
    for (int i = static_cast<int>(threadIdx.x); i < count * groups; i += kThreads) {
      const Tile tile = tiles[i / groups];
      const int group = (tile.col * kTileWidthPx >> level) / 4 + i % groups;
      if (4 * group < width_px)
        halve_group(pyramids, image, level, tile.row * kTileHeightPx >> level, group);
    }
    __syncthreads();
  }
}

constexpr int64_t kRowBytes = 32;  // rows and images start on a sector of the device's memory

int64_t up_to_rows(int64_t bytes) { return ceil_div(bytes, kRowBytes) * kRowBytes; }

}  // namespace

Status PyramidsOnDevice::make(Size canvas, int images, int levels) {
  if (Status made = make_in_order(canvas, images, levels); !made) return made;
  const cudaError_t error = cudaStreamSynchronize(memory_order().stream);
  return error == cudaSuccess ? Status(Done{}) : cuda_error("pyramids", error);
}

Status PyramidsOnDevice::make_in_order(Size canvas, int images, int levels) {
  FOVEA_CHECK(canvas.width_px >= kCellPx && canvas.width_px % kCellPx == 0);
  FOVEA_CHECK(canvas.height_px >= kCellPx && canvas.height_px % kCellPx == 0);
  FOVEA_CHECK(images >= 1 && levels >= 0 && levels <= kMaxLevels);
  DevicePyramids view{
      .canvas = canvas, .levels = levels == 0 ? level_count(canvas) : levels, .images = images};
  int64_t starts[kMaxLevels + 1] = {};
  for (int level = 0; level < view.levels; ++level) {
    view.stride_bytes[level] = up_to_rows(int64_t{3} * side_at(canvas.width_px, level));
    view.image_bytes[level] = view.stride_bytes[level] * side_at(canvas.height_px, level);
    starts[level + 1] = starts[level] + view.image_bytes[level] * images;
  }
  if (Status room = memory_.at_least(static_cast<size_t>(starts[view.levels])); !room) return room;
  if (Status room = done_.at_least(static_cast<size_t>(images)); !room) return room;
  for (int level = 0; level < view.levels; ++level)
    view.rgb[level] = memory_.data() + starts[level];
  // Kernels read words that reach beyond a row's last pixel.
  cudaStream_t stream = memory_order().stream;
  cudaMemsetAsync(memory_.data(), 0, memory_.bytes(), stream);
  cudaMemsetAsync(done_.data(), 0, done_.bytes(), stream);
  view_ = view;
  return Done{};
}

void upload_canvas_cuda(cudaStream_t stream, const DevicePyramids& pyramids, int image,
                        const uint8_t* rgb) {
  const size_t row_bytes = size_t{3} * static_cast<size_t>(pyramids.canvas.width_px);
  const auto rows = static_cast<size_t>(pyramids.canvas.height_px);
  const auto stride = static_cast<size_t>(pyramids.stride_bytes[0]);
  uint8_t* to = pyramids.rgb[0] + image * pyramids.image_bytes[0];
  if (stride == row_bytes)
    cudaMemcpyAsync(to, rgb, row_bytes * rows, cudaMemcpyHostToDevice, stream);
  else
    cudaMemcpy2DAsync(to, stride, rgb, row_bytes, row_bytes, rows, cudaMemcpyHostToDevice, stream);
}

void build_pyramids_cuda(cudaStream_t stream, const DevicePyramids& pyramids, unsigned* done,
                         PyramidLoads loads) {
  if (pyramids.levels < 2) return;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(ceil_div(pyramids.canvas.width_px, kWidthPx)),
                   static_cast<unsigned>(pyramids.canvas.height_px / kHeightPx),
                   static_cast<unsigned>(pyramids.images)),
      .block = kThreads,
      .stream = stream};
  if (loads == PyramidLoads::kStaged)
    launch(make_levels<PyramidLoads::kStaged>, shape, pyramids, done);
  else
    launch(make_levels<PyramidLoads::kDirect>, shape, pyramids, done);
}

void update_pyramids_cuda(cudaStream_t stream, const DevicePyramids& pyramids, int image,
                          const Tile* tiles, int count, unsigned* done) {
  if (count == 0 || pyramids.levels < 2) return;
  launch(update_levels,
         {.grid = static_cast<unsigned>(count * kTileBlocks), .block = kThreads, .stream = stream},
         pyramids, image, tiles, count, done);
}

}  // namespace fovea
