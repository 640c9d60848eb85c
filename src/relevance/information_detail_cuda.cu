// SPDX-License-Identifier: Apache-2.0
// Information and detail from one reading of each level.
//
//   information = (log2 n - (sum over bins of c log2 c) / n) / 6   of a cell's n pixels
//   lost[k]     = sum over the pixels C of level k-1 in a cell of level k of area(C) (C - P)^2,
//                 plus lost[k-1] of its four cells
//
// A block of four warps reads the 64x64 pixels of four cells, which are one cell of the next level;
// a warp reads one of the four, a lane 16x2 pixels of it. A lane counts in bytes of its own (32
// pixels fit), in a bank of its own: no atomics, and a flat cell costs what any other does. The
// last block of an image adds up the levels. Sums are integers throughout.
#include "base/check.h"
#include "device/cuda/kernel.h"
#include "relevance/information.h"
#include "relevance/information_detail_cuda.h"
#include "relevance/luma_cuda.h"

namespace fovea {
namespace {

constexpr int kWarps = 4;
constexpr int kBlock = kWarps * 32;
constexpr int kRunPx = 16;     // pixels of a row that a lane reads at a time
constexpr int kRunWords = 12;  // their bytes, as words
constexpr int kBinWords = kInformationBins / 4;

struct PixelRows {
  const uint8_t* rgb;
  int64_t stride_bytes;
  int64_t image_bytes;

  __device__ const uint8_t* row(int image, int y) const {
    return rgb + image * image_bytes + y * stride_bytes;
  }
};

// One level whose pixels are read.
struct LevelReading {
  PixelRows pixels;
  PixelRows parents;  // of the next level
  uint16_t* scores;   // information, or null
  uint64_t* lost;     // of the next level, or null
  int level;
  int width_px, height_px;
  int cols;       // cells a row of this level
  int wide_cols;  // cells a row of the next
  int first_block;
};

struct LevelReadings {
  LevelReading at[kMaxLevels];
  int count;
  int cells[kMaxLevels];  // of this level, one image
  int blocks;             // one image
  Size canvas;
  InformationDetail wanted;
};

// What a lane has read: 16 pixels of one row.
struct PixelRun {
  unsigned word[kRunWords];
};

__device__ PixelRun read_run(const uint8_t* from) {
  PixelRun run;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(from) + i);
    run.word[4 * i] = four.x;
    run.word[4 * i + 1] = four.y;
    run.word[4 * i + 2] = four.z;
    run.word[4 * i + 3] = four.w;
  }
  return run;
}

// Eight parents, each twice: what 16 pixels would be if nothing were lost.
__device__ PixelRun read_parents(const uint8_t* from) {
  unsigned word[6];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const uint2 two = __ldg(reinterpret_cast<const uint2*>(from) + i);
    word[2 * i] = two.x;
    word[2 * i + 1] = two.y;
  }
  PixelRun run;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned a = word[3 * half];
    const unsigned b = word[3 * half + 1];
    const unsigned c = word[3 * half + 2];
    unsigned* out = run.word + 6 * half;
    out[0] = __byte_perm(a, 0, 0x0210);
    out[1] = __byte_perm(a, b, 0x4321);
    out[2] = __byte_perm(a, b, 0x5435);
    out[3] = __byte_perm(b, c, 0x2432);
    out[4] = __byte_perm(b, c, 0x6543);
    out[5] = __byte_perm(c, 0, 0x3213);
  }
  return run;
}

// Where a lane reads: 16 pixels from (x, y) on, and those below.
struct LanePlace {
  int image;
  int x, y;
  unsigned counts;  // where its counts begin among the block's
  bool whole;       // all 32 pixels exist, and stand for as much of the canvas as any
};

// Squared steps between pixels and their parents.
__device__ unsigned add_energy(const PixelRun& pixels, const PixelRun& parents, unsigned sum) {
#pragma unroll
  for (int i = 0; i < kRunWords; ++i) {
    const unsigned step = __vabsdiffu4(pixels.word[i], parents.word[i]);
    sum = __dp4a(step, step, sum);
  }
  return sum;
}

// Byte b of a lane's word w counts bin 16 b + w; words lie 32 lanes apart. `luma` is 256 times the
// lightness.
__device__ void count_luma(unsigned luma, unsigned counts, uint8_t* bins) {
  static_assert(kInformationShift == 2 && kBinWords == 16);
  ++bins[(luma >> 3 & 0x780) | (counts + (luma >> 14))];
}

__device__ void count_run(const PixelRun& pixels, unsigned counts, uint8_t* bins) {
#pragma unroll
  for (int i = 0; i < kRunWords; i += 3) {
    const FourLumas lumas = lumas_of(pixels.word[i], pixels.word[i + 1], pixels.word[i + 2]);
#pragma unroll
    for (int j = 0; j < 4; ++j) count_luma(lumas.value[j], counts, bins);
  }
}

// Counts and energy of a lane's 32 pixels.
__device__ uint64_t read_whole(const LevelReading& reading, const LanePlace& place, uint8_t* bins) {
  PixelRun rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    rows[i] = read_run(reading.pixels.row(place.image, place.y + i) + 3 * place.x);
  uint64_t energy = 0;
  if (reading.lost != nullptr) {
    const PixelRun parents =
        read_parents(reading.parents.row(place.image, place.y / 2) + 3 * (place.x / 2));
    energy = add_energy(rows[1], parents, add_energy(rows[0], parents, 0));
  }
  if (reading.scores != nullptr)
    for (const PixelRun& row : rows) count_run(row, place.counts, bins);
  return energy << 2 * reading.level;
}

__device__ uint64_t covered(int index, int level, int canvas_side_px) {
  return static_cast<uint64_t>(
      min(int64_t{1} << level, canvas_side_px - (int64_t{index} << level)));
}

// The same where the canvas ends, pixel by pixel.
__device__ uint64_t read_edge(const LevelReading& reading, Size canvas, const LanePlace& place,
                              uint8_t* bins) {
  uint64_t sum = 0;
  for (int y = place.y; y < min(place.y + 2, reading.height_px); ++y) {
    for (int x = place.x; x < min(place.x + kRunPx, reading.width_px); ++x) {
      const uint8_t* pixel = reading.pixels.row(place.image, y) + 3 * x;
      if (reading.scores != nullptr) count_luma(luma_at(pixel) << 8, place.counts, bins);
      if (reading.lost == nullptr) continue;
      const uint8_t* parent = reading.parents.row(place.image, y / 2) + 3 * (x / 2);
      unsigned energy = 0;
      for (int c = 0; c < 3; ++c) {
        const int step = pixel[c] - parent[c];
        energy += static_cast<unsigned>(step * step);
      }
      sum += covered(x, reading.level, canvas.width_px) *
             covered(y, reading.level, canvas.height_px) * energy;
    }
  }
  return sum;
}

// The sum of n log2 n over the bins of a warp's cell, in every lane. A lane adds up half the lanes'
// counts of four bins, beginning at a bank of its own, then two lanes share the four.
__device__ unsigned sum_bins(const unsigned* counts, const uint32_t* plogp, int lane) {
  const int word = lane % kBinWords;
  const int half = lane / kBinWords * kBinWords;
  unsigned even = 0;
  unsigned odd = 0;
#pragma unroll
  for (int i = 0; i < kBinWords; ++i) {
    const unsigned four = counts[word * 32 + half + (i + lane) % kBinWords];
    even += four & 0x00FF00FF;
    odd += four >> 8 & 0x00FF00FF;
  }
  even += __shfl_xor_sync(kAllLanes, even, kBinWords);
  odd += __shfl_xor_sync(kAllLanes, odd, kBinWords);
  const unsigned two = half == 0 ? even : odd;
  unsigned sum = __ldg(plogp + (two & 0xFFFF)) + __ldg(plogp + (two >> 16));
#pragma unroll
  for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(kAllLanes, sum, other);
  return sum;
}

// As information_score().
__device__ uint16_t score_of(unsigned pixels, unsigned sum, const uint32_t* plogp) {
  const uint64_t held = __ldg(plogp + pixels) - sum;
  if (pixels == kCellPx * kCellPx) {  // a power of two: one short division
    constexpr uint64_t kHalf = uint64_t{kInformationBits} << 25;
    return static_cast<uint16_t>(static_cast<unsigned>((held * 65535 + kHalf) >> 26) /
                                 kInformationBits);
  }
  const uint64_t most = (uint64_t{pixels} * kInformationBits) << 16;
  return static_cast<uint16_t>((held * 65535 + most / 2) / most);
}

// Lane 0 is at the cell's first pixel, and writes its score.
__device__ void write_information(const LevelReading& reading, const LanePlace& place,
                                  const unsigned* counts, const uint32_t* plogp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned sum = sum_bins(counts, plogp, lane);
  if (lane != 0 || place.x >= reading.width_px || place.y >= reading.height_px) return;
  const int wide = min(kCellPx, reading.width_px - place.x);
  const int high = min(kCellPx, reading.height_px - place.y);
  const int rows_of_cells = ceil_div(reading.height_px, kCellPx);
  const int64_t cell =
      (int64_t{place.image} * rows_of_cells + place.y / kCellPx) * reading.cols + place.x / kCellPx;
  reading.scores[cell] = score_of(static_cast<unsigned>(wide * high), sum, plogp);
}

// What a finer level lost stays lost. Other blocks wrote what is read here: past the first cache.
__device__ void add_up_levels(const DeviceDetail& detail, int image) {
  for (int k = 2; k < detail.levels; ++k) {
    __syncthreads();
    const Grid grid = detail.grid[k];
    const Grid finer = detail.grid[k - 1];
    uint64_t* to = detail.lost[k] + int64_t{image} * grid.rows * grid.cols;
    const uint64_t* from = detail.lost[k - 1] + int64_t{image} * finer.rows * finer.cols;
    for (int cell = static_cast<int>(threadIdx.x); cell < grid.rows * grid.cols; cell += kBlock) {
      const int row = cell / grid.cols * 2;
      const int col = cell % grid.cols * 2;
      uint64_t sum = __ldcg(to + cell);
      for (int r = row; r < min(row + 2, finer.rows); ++r)
        for (int c = col; c < min(col + 2, finer.cols); ++c)
          sum += __ldcg(from + static_cast<int64_t>(r) * finer.cols + c);
      to[cell] = sum;
    }
  }
}

// The level of a block, and where in it a lane reads.
__device__ LanePlace place_of(const LevelReadings& readings, const LevelReading& reading,
                              int wide_cell) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  LanePlace place{};
  place.image = static_cast<int>(blockIdx.y);
  place.x = wide_cell % reading.wide_cols * 2 * kCellPx + warp % 2 * kCellPx + lane % 2 * kRunPx;
  place.y = wide_cell / reading.wide_cols * 2 * kCellPx + warp / 2 * kCellPx + lane / 2 * 2;
  place.counts = static_cast<unsigned>(warp * kBinWords * 32 + lane) * 4;
  place.whole = int64_t{place.x + kRunPx} << reading.level <= readings.canvas.width_px &&
                int64_t{place.y + 2} << reading.level <= readings.canvas.height_px;
  return place;
}

// grid: blocks of an image, images
__global__ __launch_bounds__(kBlock) void read_levels(
    const __grid_constant__ LevelReadings readings) {
  __shared__ unsigned counts[kWarps * kBinWords * 32];
  __shared__ unsigned long long parts[kWarps];
  __shared__ bool last;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  int at = 0;
  while (at + 1 < readings.count && static_cast<int>(blockIdx.x) >= readings.at[at + 1].first_block)
    ++at;
  const LevelReading& reading = readings.at[at];
  const int wide_cell = static_cast<int>(blockIdx.x) - reading.first_block;
  const LanePlace place = place_of(readings, reading, wide_cell);
  unsigned* own_counts = counts + warp * kBinWords * 32;
#pragma unroll
  for (int i = 0; i < kBinWords; ++i) own_counts[i * 32 + lane] = 0;
  auto* bins = reinterpret_cast<uint8_t*>(counts);
  unsigned long long sum = place.whole ? read_whole(reading, place, bins)
                                       : read_edge(reading, readings.canvas, place, bins);
  __syncwarp();
  if (reading.scores != nullptr)
    write_information(reading, place, own_counts, readings.wanted.plogp);
  if (readings.wanted.detail.levels < 2) return;
#pragma unroll
  for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(kAllLanes, sum, other);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (thread == 0) {
    if (reading.lost != nullptr)
      reading.lost[int64_t{place.image} * readings.cells[at] + wide_cell] =
          parts[0] + parts[1] + parts[2] + parts[3];
    __threadfence();
    last = atomicInc(&readings.wanted.done[place.image], gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  add_up_levels(readings.wanted.detail, place.image);
}

LevelReading reading_of(const DevicePyramids& pyramids, int level) {
  LevelReading reading{};
  reading.level = level;
  reading.width_px = ceil_div(pyramids.canvas.width_px, 1 << level);
  reading.height_px = ceil_div(pyramids.canvas.height_px, 1 << level);
  reading.cols = grid_at(pyramids.canvas, level).cols;
  reading.wide_cols = grid_at(pyramids.canvas, level + 1).cols;
  const auto rows_of = [&](int at) {
    return PixelRows{pyramids.rgb[at], pyramids.stride_bytes[at], pyramids.image_bytes[at]};
  };
  reading.pixels = rows_of(level);
  if (level + 1 < pyramids.levels) reading.parents = rows_of(level + 1);
  return reading;
}

}  // namespace

void measure_information_detail_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                                     const InformationDetail& wanted) {
  const DeviceDetail& detail = wanted.detail;
  const bool informs = wanted.information.score != nullptr;
  FOVEA_CHECK(detail.levels <= pyramids.levels && wanted.level < pyramids.levels);
  FOVEA_CHECK(!informs || wanted.information.grid == grid_at(pyramids.canvas, wanted.level));
  LevelReadings readings{};
  readings.canvas = pyramids.canvas;
  readings.wanted = wanted;
  for (int level = 0; level < pyramids.levels; ++level) {
    const bool loses = level + 1 < detail.levels;
    const bool scores = informs && level == wanted.level;
    if (!loses && !scores) continue;
    LevelReading& reading = readings.at[readings.count];
    reading = reading_of(pyramids, level);
    reading.first_block = readings.blocks;
    if (scores) reading.scores = wanted.information.score;
    if (loses) reading.lost = detail.lost[level + 1];
    const auto cells = static_cast<int>(grid_at(pyramids.canvas, level + 1).cells());
    FOVEA_CHECK(!loses || detail.grid[level + 1] == grid_at(pyramids.canvas, level + 1));
    readings.cells[readings.count++] = cells;
    readings.blocks += cells;
  }
  if (readings.blocks == 0) return;
  launch(read_levels,
         {.grid = {static_cast<unsigned>(readings.blocks), static_cast<unsigned>(pyramids.images)},
          .block = kBlock,
          .stream = stream},
         readings);
}

}  // namespace fovea
