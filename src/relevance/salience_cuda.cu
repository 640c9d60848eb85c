// SPDX-License-Identifier: Apache-2.0
// Salience: blur of figure and texture, their means over cells, and what salience.h makes of them.
// Doubles are added and multiplied one by one (no fused steps), so that scores equal the CPU's.
#include "relevance/salience_cuda.h"

#include <cstring>

#include "base/check.h"
#include "device/cuda/kernel.h"
#include "relevance/texture_cuda.h"

namespace fovea {
namespace {

constexpr int kBlurPx = 32;  // a block's pixels, a side
constexpr int kHalo = 4;     // two boxes of radius 2
constexpr int kSide = kBlurPx + 2 * kHalo;
constexpr int kBlock = 256;
constexpr double kFloor = 0.02;
constexpr double kCentre = 2.0;
enum Largest { kFigure, kTexture, kSalience };

struct BlurJob {
  Size size;
  int images;
  const uint32_t* figure;
  const uint16_t* texture;
  uint32_t* blurred;
};

// The part of the picture a block blurs, in its own coordinates: (0, 0) is `halo` left of it.
struct BlurPlace {
  int x0, y0;
  Size size;
};

__device__ unsigned plane_value(const BlurJob& job, bool texture, int64_t image, int64_t pixel) {
  const int64_t pixels = int64_t{job.size.width_px} * job.size.height_px;
  if (texture) return job.texture[image * pixels + pixel];
  constexpr int kChannels = kFigureChannels;
  unsigned sum = 0;
#pragma unroll
  for (int c = 0; c < kChannels; ++c) sum += job.figure[(image * kChannels + c) * pixels + pixel];
  return sum;
}

// to = sums of five neighbours along one axis, wherever they are needed: `margin` pixels less than
// all along this axis, `other` less along the other. Pixels outside are the nearest inside.
template <bool kAcross>
__device__ void sum_five(const BlurPlace& place, int margin, int other, const unsigned* from,
                         unsigned* to) {
  const int left = kAcross ? margin : other;
  const int top = kAcross ? other : margin;
  const int wide = kSide - 2 * left;
  const int high = kSide - 2 * top;
  for (int i = static_cast<int>(threadIdx.x); i < wide * high; i += kBlock) {
    const int x = left + i % wide;
    const int y = top + i / wide;
    const int at = kAcross ? x + place.x0 : y + place.y0;  // in the picture
    const int last = (kAcross ? place.size.width_px : place.size.height_px) - 1;
    if (x + place.x0 < 0 || y + place.y0 < 0 || x + place.x0 >= place.size.width_px ||
        y + place.y0 >= place.size.height_px)
      continue;
    unsigned sum = 0;
#pragma unroll
    for (int step = -2; step <= 2; ++step) {
      const int moved = max(0, min(at + step, last)) - at;
      sum += from[kAcross ? y * kSide + x + moved : (y + moved) * kSide + x];
    }
    to[y * kSide + x] = sum;
  }
  __syncthreads();
}

// grid: pixels / 32, pixels / 32, 2 * images: figures, then textures
__global__ __launch_bounds__(kBlock) void blur(const BlurJob job) {
  __shared__ unsigned first[kSide * kSide];
  __shared__ unsigned second[kSide * kSide];
  wait_for_previous();
  const int plane = static_cast<int>(blockIdx.z);
  const bool texture = plane >= job.images;
  const int image = texture ? plane - job.images : plane;
  const BlurPlace place{static_cast<int>(blockIdx.x) * kBlurPx - kHalo,
                        static_cast<int>(blockIdx.y) * kBlurPx - kHalo, job.size};
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kSide; i += kBlock) {
    const int x = max(0, min(place.x0 + i % kSide, job.size.width_px - 1));
    const int y = max(0, min(place.y0 + i / kSide, job.size.height_px - 1));
    first[i] = plane_value(job, texture, image, int64_t{y} * job.size.width_px + x);
  }
  __syncthreads();
  sum_five<true>(place, 2, 0, first, second);
  sum_five<true>(place, 4, 0, second, first);
  sum_five<false>(place, 2, 4, first, second);
  sum_five<false>(place, 4, 4, second, first);
  for (int i = static_cast<int>(threadIdx.x); i < kBlurPx * kBlurPx; i += kBlock) {
    const int x = kHalo + i % kBlurPx;
    const int y = kHalo + i / kBlurPx;
    if (place.x0 + x < job.size.width_px && place.y0 + y < job.size.height_px)
      job.blurred[(int64_t{plane} * job.size.height_px + place.y0 + y) * job.size.width_px +
                  place.x0 + x] = first[y * kSide + x];
  }
}

struct CellsJob {
  Size canvas;
  Grid grid;
  int images;
  int level;
  int work_level;
  int lanes;  // that share a cell: a power of two, at most 32
  Size size;
  bool centre_bias;
  const uint32_t* blurred;
  double* cells;
  unsigned long long* largest;
  uint16_t* score;
};

// Not negative: then doubles and their bits have the same order.
__device__ void raise_largest(double value, unsigned long long* largest) {
  auto bits = static_cast<unsigned long long>(__double_as_longlong(value));
#pragma unroll
  for (int other = 16; other > 0; other /= 2)
    bits = max(bits, __shfl_xor_sync(kAllLanes, bits, other));
  if (threadIdx.x % 32 == 0 && bits > 0) atomicMax(largest, bits);
}
__device__ double largest_of(const CellsJob& job, int64_t image, Largest which) {
  return __longlong_as_double(static_cast<long long>(job.largest[image * kLargest + which]));
}

// As mean_over(); `lane` of the job's lanes adds up every so many columns.
__device__ double mean_over(const CellsJob& job, const uint32_t* plane, int row, int col,
                            int lane) {
  const int side = (kCellPx << job.level) >> job.work_level;
  const int end_y = min((row + 1) * side, job.size.height_px);
  const int end_x = min((col + 1) * side, job.size.width_px);
  unsigned long long sum = 0;
  for (int y = row * side; y < end_y; ++y)
    for (int x = col * side + lane; x < end_x; x += job.lanes)
      sum += plane[int64_t{y} * job.size.width_px + x];
  for (int other = job.lanes / 2; other > 0; other /= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, other);
  const int count = (end_y - row * side) * (end_x - col * side);
  return __ddiv_rn(static_cast<double>(sum), static_cast<double>(count));
}

__device__ double between(double a, double b, double part) {
  return __dadd_rn(__dmul_rn(a, 1 - part), __dmul_rn(b, part));
}

// As interpolate_at().
__device__ double interpolate_at(const CellsJob& job, const uint32_t* plane, int row, int col) {
  const double side = static_cast<double>(kCellPx) /
                      static_cast<double>(int64_t{1} << (job.work_level - job.level));
  const int last_y = job.size.height_px - 1;
  const int last_x = job.size.width_px - 1;
  // Products with a power of two are exact, fused or not.
  const double y = max(0.0, min((row + 0.5) * side - 0.5, static_cast<double>(last_y)));
  const double x = max(0.0, min((col + 0.5) * side - 0.5, static_cast<double>(last_x)));
  const int y0 = static_cast<int>(y);
  const int x0 = static_cast<int>(x);
  const uint32_t* upper = plane + int64_t{y0} * job.size.width_px;
  const uint32_t* lower = plane + int64_t{min(y0 + 1, last_y)} * job.size.width_px;
  const int x1 = min(x0 + 1, last_x);
  return between(between(upper[x0], upper[x1], x - x0), between(lower[x0], lower[x1], x - x0),
                 y - y0);
}

// grid: cells * lanes / 256, 2 * images: figures, then textures
__global__ __launch_bounds__(kBlock) void take_to_cells(const CellsJob job) {
  wait_for_previous();
  const int plane = static_cast<int>(blockIdx.y);
  const int cells = job.grid.rows * job.grid.cols;
  const int thread = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  const int lane = thread % job.lanes;
  const int cell = min(thread / job.lanes, cells - 1);  // all lanes stay to the end
  const int row = cell / job.grid.cols;
  const int col = cell % job.grid.cols;
  const uint32_t* from = job.blurred + int64_t{plane} * job.size.width_px * job.size.height_px;
  const bool covers = (kCellPx << job.level) >> job.work_level >= 1;
  const double value =
      covers ? mean_over(job, from, row, col, lane) : interpolate_at(job, from, row, col);
  if (lane == 0) job.cells[int64_t{plane} * cells + cell] = value;
  const bool texture = plane >= job.images;
  const int image = texture ? plane - job.images : plane;
  raise_largest(value, job.largest + int64_t{image} * kLargest + (texture ? kTexture : kFigure));
}

// As offset_of().
__device__ double offset_of(int index, int level, int side_px) {
  const int64_t cell_px = int64_t{kCellPx} << level;
  const int64_t begin_px = index * cell_px;
  const int64_t end_px = min(begin_px + cell_px, int64_t{side_px});
  return __ddiv_rn(static_cast<double>(begin_px + end_px - side_px), side_px);
}

__device__ double with_floor(double value, double largest) {
  const double unit = largest > 0 ? __ddiv_rn(value, largest) : value;
  return __ddiv_rn(__dadd_rn(unit, kFloor), 1 + kFloor);
}

// grid: cells / 256, images
__global__ __launch_bounds__(kBlock) void combine(const CellsJob job) {
  wait_for_previous();
  const auto image = static_cast<int64_t>(blockIdx.y);
  const int cells = job.grid.rows * job.grid.cols;
  const int cell = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  double salience = 0;
  if (cell < cells) {
    double* figure = job.cells + image * cells + cell;
    const double texture = job.cells[(job.images + image) * cells + cell];
    const double f = with_floor(*figure, largest_of(job, image, kFigure));
    const double t = with_floor(texture, largest_of(job, image, kTexture));
    const double sharpened =
        __dmul_rn(__dmul_rn(f, __dsqrt_rn(__dsqrt_rn(f))), __dsqrt_rn(__dmul_rn(t, __dsqrt_rn(t))));
    const double y = offset_of(cell / job.grid.cols, job.level, job.canvas.height_px);
    const double x = offset_of(cell % job.grid.cols, job.level, job.canvas.width_px);
    const double ecc = __dsqrt_rn(__dadd_rn(__dmul_rn(x, x), __dmul_rn(y, y)));
    const double centre = job.centre_bias ? __ddiv_rn(1, __dadd_rn(1, __dmul_rn(kCentre, ecc))) : 1;
    salience = __dmul_rn(sharpened, centre);
    *figure = salience;
  }
  raise_largest(salience, job.largest + image * kLargest + kSalience);
}

// grid: cells / 256, images
__global__ __launch_bounds__(kBlock) void score(const CellsJob job) {
  wait_for_previous();
  const auto image = static_cast<int64_t>(blockIdx.y);
  const int cells = job.grid.rows * job.grid.cols;
  const int cell = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  if (cell >= cells) return;
  // Where there is neither figure nor texture, nothing is salient.
  const bool anything = largest_of(job, image, kFigure) > 0 || largest_of(job, image, kTexture) > 0;
  const double unit = __ddiv_rn(job.cells[image * cells + cell], largest_of(job, image, kSalience));
  job.score[image * cells + cell] =
      anything ? static_cast<uint16_t>(__dadd_rn(__dmul_rn(unit, 65535), 0.5)) : uint16_t{0};
}

Size size_at(Size canvas, int level) {
  return {ceil_div(canvas.width_px, 1 << level), ceil_div(canvas.height_px, 1 << level)};
}

// What a block may have for itself beside its small tables.
size_t shared_bytes_of_device() {
  int device = 0;
  int bytes = 0;
  constexpr int kTables = 8 << 10;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
          cudaSuccess)
    return 0;
  return static_cast<size_t>(max(0, bytes - kTables));
}

}  // namespace

int salience_work_level(Size canvas) {
  int level = 0;
  while (size_at(canvas, level).pixels() > kFigurePixels) ++level;
  return level;
}

Status SalienceWorkspace::make(Size canvas, int images, bool in_shared) {
  canvas_ = canvas;
  images_ = images;
  work_level_ = fovea::salience_work_level(canvas);
  const Size size = size_at(canvas, work_level_);
  const size_t shared_bytes = in_shared ? shared_bytes_of_device() : 0;
  layout_ = lay_out_figure(size, shared_bytes);
  const auto count = static_cast<size_t>(images);
  const auto pixels = static_cast<size_t>(size.pixels());
  const auto words = static_cast<size_t>(layout_.words);
  const bool fits = words * sizeof(uint32_t) <= shared_bytes;
  const size_t cells = static_cast<size_t>(grid_at(canvas, 0).cells());
  for (Status made :
       {texture_.allocate(count * pixels),
        state_.allocate(fits ? 0 : count * kFigureChannels * words),
        figure_.allocate(count * kFigureChannels * pixels), blurred_.allocate(2 * count * pixels),
        cells_.allocate(2 * count * cells), largest_.allocate(count * kLargest)})
    if (!made) return made;
  return Done{};
}

void begin_salience_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                         SalienceWorkspace& workspace, cudaEvent_t textured) {
  FOVEA_CHECK(pyramids.canvas == workspace.canvas_ && pyramids.images <= workspace.images_);
  const int work = workspace.work_level_;
  measure_texture_cuda(stream, pyramids, max(0, work - 2), work, workspace.texture_.data(),
                       workspace.largest_.data());
  cudaEventRecord(textured, stream);
  FigureJob job;
  job.layout = workspace.layout_;
  job.images = pyramids.images;
  job.rgb = pyramids.rgb[work];
  job.stride_bytes = pyramids.stride_bytes[work];
  job.image_bytes = pyramids.image_bytes[work];
  job.texture = workspace.texture_.data();
  job.state = workspace.state_.data();
  job.figure = workspace.figure_.data();
  measure_figure_cuda(stream, job);
}

void finish_salience_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                          const SalienceParams& params, SalienceWorkspace& workspace,
                          const DeviceMaps& salience) {
  const auto images = static_cast<unsigned>(pyramids.images);
  const Size size = size_at(pyramids.canvas, workspace.work_level_);
  const auto across = [](int count, int block) {
    return static_cast<unsigned>(ceil_div(count, block));
  };
  const BlurJob blurs{size, pyramids.images, workspace.figure_.data(), workspace.texture_.data(),
                      workspace.blurred_.data()};
  launch(blur,
         {.grid = {across(size.width_px, kBlurPx), across(size.height_px, kBlurPx), 2 * images},
          .block = kBlock,
          .stream = stream,
          .overlaps = true},
         blurs);
  CellsJob job{};
  job.canvas = pyramids.canvas;
  job.grid = grid_at(pyramids.canvas, params.level);
  FOVEA_CHECK(salience.grid == job.grid);
  job.images = pyramids.images;
  job.level = params.level;
  job.work_level = workspace.work_level_;
  job.lanes = max(1, min(32, (kCellPx << params.level) >> workspace.work_level_));
  job.size = size;
  job.centre_bias = params.centre_bias;
  job.blurred = workspace.blurred_.data();
  job.cells = workspace.cells_.data();
  job.largest = workspace.largest_.data();
  job.score = salience.score;
  const auto cells = static_cast<int>(job.grid.cells());
  const auto shape = [&](int threads, unsigned planes) {
    return LaunchShape{.grid = {across(threads, kBlock), planes},
                       .block = kBlock,
                       .stream = stream,
                       .overlaps = true};
  };
  launch(take_to_cells, shape(cells * job.lanes, 2 * images), job);
  launch(combine, shape(cells, images), job);
  launch(score, shape(cells, images), job);
}

}  // namespace fovea
