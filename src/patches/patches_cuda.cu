// SPDX-License-Identifier: Apache-2.0
#include "patches/patches_cuda.h"

#include "base/check.h"
#include "device/cuda/bf16.h"
#include "device/cuda/kernel.h"
#include "device/cuda/load.h"

// A block samples some cells of one image, one after the other; each of its four warps one patch of
// them. A thread owns 8 pixels of a row: it reads 24 bytes and stores 16 bytes for each channel and
// frame. The lanes of a warp go along rows, so that one store of theirs is a whole plane of 16x16
// values: 512 bytes.
//
// value = (byte / 255 - 0.5) / 0.5, rounded to bf16.
//
// Bytes: 3 for each pixel read, 6 a frame written.

namespace fovea {
namespace {

constexpr int kThreads = 128;
constexpr int kMostCells = 32;  // of a block: each lane knows one
constexpr int kPlane = kPatchPx * kPatchPx;

// Pixels of one row, three channels each.
struct EightPixels {
  uint32_t words[6];
};

__device__ int side_of(int canvas_px, int level) { return (canvas_px + (1 << level) - 1) >> level; }

__device__ EightPixels read_pixels(const DevicePyramids& pyramids, int image, const Cell& cell,
                                   int patch, int lane) {
  const int width = side_of(pyramids.canvas.width_px, cell.level);
  const int height = side_of(pyramids.canvas.height_px, cell.level);
  const int x = cell.col * kCellPx + patch % 2 * kPatchPx + lane % 2 * 8;
  const int y = min(cell.row * kCellPx + patch / 2 * kPatchPx + lane / 2, height - 1);
  const uint8_t* row = pyramids.rgb[cell.level] + image * pyramids.image_bytes[cell.level] +
                       y * pyramids.stride_bytes[cell.level];
  EightPixels pixels;
  if (x + 8 <= width) {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const uint2 pair = __ldg(reinterpret_cast<const uint2*>(row + 3 * x) + i);
      pixels.words[2 * i] = pair.x;
      pixels.words[2 * i + 1] = pair.y;
    }
    return pixels;
  }
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    pixels.words[i] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int byte = 4 * i + j;
      const uint32_t value = __ldg(row + 3 * min(x + byte / 3, width - 1) + byte % 3);
      pixels.words[i] |= value << 8 * j;
    }
  }
  return pixels;
}

// (byte / 255 - 0.5) / 0.5 by one multiplication and addition: the float whose bits are 0x4700bb00
// is 32768 + byte. It differs from `normalised` in the last bits of a float, and in none of a bf16.
__device__ float normalised_byte(const EightPixels& pixels, int byte) {
  constexpr float kScale = 2.0f / 255.0f;
  constexpr auto kShift = static_cast<float>(-(32768.0 * kScale + 1.0));
  const uint32_t bits =
      __byte_perm(pixels.words[byte / 4], 0x4700, 0x5404u | static_cast<unsigned>(byte % 4) << 4);
  return __fmaf_rn(__uint_as_float(bits), kScale, kShift);
}

// `to`: the values of this warp's patch.
template <int kFrames>
__device__ void store_values(const EightPixels& pixels, int lane, uint16_t* to) {
#pragma unroll
  for (int channel = 0; channel < 3; ++channel) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] = to_pair(normalised_byte(pixels, 6 * i + channel),
                         normalised_byte(pixels, 6 * i + 3 + channel));
    const uint4 values = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
#pragma unroll
    for (int frame = 0; frame < kFrames; ++frame)
      reinterpret_cast<uint4*>(to + (channel * kFrames + frame) * kPlane)[lane] = values;
  }
}

// As place_at.
__device__ float centre_of(int index, int level, int canvas_px) {
  const auto span = static_cast<float>(1 << level);
  return fminf(static_cast<float>(index) * span + (span - 1) / 2,
               static_cast<float>(ceil_div(canvas_px, kPatchPx) - 1));
}

__device__ PatchPlace place_of(Size canvas, const Cell& cell, int patch) {
  return {centre_of(cell.row * 2 + patch / 2, cell.level, canvas.height_px),
          centre_of(cell.col * 2 + patch % 2, cell.level, canvas.width_px), cell.level};
}

// The cells of the images before this one. All lanes of a warp call it together.
__device__ int cells_before(const DevicePlans& plans, int image, int lane) {
  int sum = 0;
  for (int i = lane; i < image; i += 32) sum += __ldg(plans.counts + i);
#pragma unroll
  for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(kAllLanes, sum, other);
  return sum;
}

struct WorkOfLane {
  Cell cell;
  int index;  // in the plan
};

__device__ WorkOfLane of_lane(const WorkOfLane& mine, int lane) {
  return {
      {__shfl_sync(kAllLanes, mine.cell.level, lane), __shfl_sync(kAllLanes, mine.cell.row, lane),
       __shfl_sync(kAllLanes, mine.cell.col, lane)},
      __shfl_sync(kAllLanes, mine.index, lane)};
}

template <int kFrames, bool kPrefetch>
__global__ void __launch_bounds__(kThreads)
    sample_cells(const __grid_constant__ DevicePyramids pyramids, DevicePlans plans,
                 DevicePatches patches, const int* mixed, int cells_per_block) {
  const auto image = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int patch = static_cast<int>(threadIdx.x) / 32;
  const int count = __ldg(plans.counts + image);
  const int first = static_cast<int>(blockIdx.x) * cells_per_block;
  if (first >= count && first > 0) return;
  const int before = kPatchesPerCell * cells_before(plans, image, lane);
  if (first == 0 && threadIdx.x == 0) {
    patches.offsets[image] = before;
    if (image == plans.images - 1) patches.offsets[image + 1] = before + kPatchesPerCell * count;
  }
  const int cells = min(cells_per_block, count - first);
  const int64_t plan = int64_t{image} * plans.room;
  WorkOfLane known{};
  if (lane < cells) {
    known.index = mixed == nullptr ? first + lane : __ldg(mixed + plan + first + lane);
    known.cell = plans.cells[plan + known.index];
  }
  EightPixels pixels{};
  EightPixels next{};
  for (int i = 0; i < cells; ++i) {
    const WorkOfLane work = of_lane(known, i);
    if (!kPrefetch || i == 0)
      pixels = read_pixels(pyramids, image, work.cell, patch, lane);
    else
      pixels = next;
    if (kPrefetch && i + 1 < cells)
      next = read_pixels(pyramids, image, of_lane(known, i + 1).cell, patch, lane);
    const int64_t at = before + kPatchesPerCell * work.index + patch;
    store_values<kFrames>(pixels, lane, patches.values + at * (3 * kFrames * kPlane));
    if (lane == 0 && patches.places != nullptr)
      patches.places[at] = place_of(pyramids.canvas, work.cell, patch);
  }
}

// A block for each cell, a thread for each 32 bytes of its rows, which may start between two
// sectors.
__global__ void __launch_bounds__(kThreads)
    touch_cells(const __grid_constant__ DevicePyramids pyramids, DevicePlans plans) {
  const auto image = static_cast<int>(blockIdx.y);
  const auto index = static_cast<int>(blockIdx.x);
  if (index >= __ldg(plans.counts + image)) return;
  const Cell cell = plans.cells[int64_t{image} * plans.room + index];
  const int y = cell.row * kCellPx + static_cast<int>(threadIdx.x) / 4;
  const int byte = min(3 * kCellPx - 1, static_cast<int>(threadIdx.x) % 4 * 32);
  const int x = cell.col * kCellPx * 3 + byte;
  if (y >= side_of(pyramids.canvas.height_px, cell.level)) return;
  const int last = 3 * side_of(pyramids.canvas.width_px, cell.level) - 1;
  prefetch_line(pyramids.rgb[cell.level] + image * pyramids.image_bytes[cell.level] +
                y * pyramids.stride_bytes[cell.level] + min(x, last));
}

// A block samples several cells once there are enough of them for all multiprocessors of a large
// GPU.
int cells_for_block(const DevicePlans& plans) {
  constexpr int64_t kBlocks = 4096;
  const int64_t cells = ceil_div(int64_t{plans.images} * plans.room, kBlocks);
  return static_cast<int>(min(cells, int64_t{8}));
}

}  // namespace

void sample_patches_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                         const DevicePlans& plans, const DevicePatches& patches,
                         const SamplingOrder& order) {
  FOVEA_CHECK(plans.images >= 1 && plans.images == pyramids.images && plans.room >= 1);
  FOVEA_CHECK(plans.canvas == pyramids.canvas);
  FOVEA_CHECK(patches.frames == 1 || patches.frames == 2);
  FOVEA_CHECK(order.cells_per_block >= 0 && order.cells_per_block <= kMostCells);
  const int cells = order.cells_per_block > 0 ? order.cells_per_block : cells_for_block(plans);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(ceil_div(plans.room, cells)),
                                       static_cast<unsigned>(plans.images)),
                          .block = kThreads,
                          .stream = stream};
  const auto run = [&](auto kernel) {
    launch(kernel, shape, pyramids, plans, patches, order.mixed, cells);
  };
  if (patches.frames == 2)
    order.prefetch ? run(sample_cells<2, true>) : run(sample_cells<2, false>);
  else
    order.prefetch ? run(sample_cells<1, true>) : run(sample_cells<1, false>);
}

void warm_cache_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                     const DevicePlans& plans) {
  launch(touch_cells,
         {.grid = dim3(static_cast<unsigned>(plans.room), static_cast<unsigned>(plans.images)),
          .block = kThreads,
          .stream = stream},
         pyramids, plans);
}

}  // namespace fovea
