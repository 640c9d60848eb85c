// SPDX-License-Identifier: Apache-2.0
// Figure: the sums of figure.h, from each pixel's reach
//
//   reach(p) = max over paths from p to the border of the least value on the path
//
// for a channel and its other side (255 - value) together: two 16-bit halves of a word. A block
// owns one channel of one image. A word of its memory holds a pixel: both reaches, both values.
//
// What is outside of the picture reaches 255, so that every line ends like any other. A pass
// closes all rows, then all columns, each along the whole line at once: along a part of 16 pixels
//
//   what leaves it = max(own, min(what enters, least))
//
// whichever way, so lanes compose parts by a scan, then give their pixels the best of both ways. A
// group of lines (those of one warp) is visited again only when a pixel of it has changed. No
// change at all: done. Photographs take 10 to 40 passes, most of them over few groups.
#include "base/check.h"
#include "device/cuda/kernel.h"
#include "relevance/figure.h"
#include "relevance/figure_cuda.h"
#include "relevance/luma_cuda.h"

namespace fovea {
namespace {

constexpr int kPartPx = 16;
constexpr int kMostThreads = 1024;
constexpr int kFewImages = 16;  // up to so many have a multiprocessor for each of their blocks
constexpr int kRowSkew = 4;     // words more after 16 rows: lanes of a column meet no bank twice
constexpr int kMaxGroups = 1024;
constexpr unsigned kOutside = 0xFFFFFFFF;

__device__ int warps_of_block() { return static_cast<int>(blockDim.x) / 32; }

struct FigureShared {
  uint8_t rows[kMaxGroups];  // groups that changed since they were closed
  uint8_t cols[kMaxGroups];
  int steps[2][256];      // surrounded pixels: how many more from this threshold on
  unsigned sums[2][256];  // the weights of all thresholds below
};

__device__ unsigned reaches_of(unsigned pixel) { return __byte_perm(pixel, 0, 0x4140); }
__device__ unsigned values_of(unsigned pixel) { return __byte_perm(pixel, 0, 0x4342); }
__device__ unsigned with_reaches(unsigned pixel, unsigned reaches) {
  return __byte_perm(reaches, pixel, 0x7620);
}

__device__ int to_byte(int value) { return max(0, min(value, 255)); }

// As set_channels() has them.
__device__ int channel_value(const FigureJob& job, int64_t image, int channel, int x, int y) {
  const Size size = job.layout.size;
  if (channel == 4) {
    const uint16_t* texture = job.texture + image * size.width_px * size.height_px;
    unsigned around = 0;
    for (int v = y - 1; v <= y + 1; ++v)
      for (int u = x - 1; u <= x + 1; ++u)
        around += texture[max(0, min(v, size.height_px - 1)) * size.width_px +
                          max(0, min(u, size.width_px - 1))];
    return static_cast<int>(min(255U, around / 72));
  }
  const uint8_t* rgb = job.rgb + image * job.image_bytes + y * job.stride_bytes + 3 * x;
  const int r = rgb[0];
  const int g = rgb[1];
  const int b = rgb[2];
  if (channel == 0) return static_cast<int>(luma_at(rgb));
  if (channel == 1) return to_byte(128 + 2 * (r - g));
  if (channel == 2) return to_byte(128 + ((2 * b - r - g) >> 2));
  return to_byte(4 * (r - max(g, b)));
}

__device__ int word_at(const FigureLayout& layout, int x, int y) {
  return y * layout.pitch + y / kPartPx * kRowSkew + x + x / kPartPx;
}

// The border reaches itself, what is outside reaches everything, the rest nothing yet.
__device__ void fill(const FigureJob& job, int64_t image, int channel, uint32_t* state) {
  const FigureLayout& layout = job.layout;
  const Size size = layout.size;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int y = static_cast<int>(threadIdx.x) / 32; y < layout.rows.lines; y += warps_of_block()) {
    for (int x = lane; x < layout.cols.lines; x += 32) {
      unsigned pixel = kOutside;
      if (x < size.width_px && y < size.height_px) {
        const auto value = static_cast<unsigned>(channel_value(job, image, channel, x, y));
        const unsigned both = value | (255 - value) << 8;
        const bool border = x == 0 || y == 0 || x == size.width_px - 1 || y == size.height_px - 1;
        pixel = both << 16 | (border ? both : 0);
      }
      state[word_at(layout, x, y)] = pixel;
    }
  }
}

// What enters a lane's part from the lanes before it (or, backwards, after it) and from `outside`.
template <bool kForward>
__device__ unsigned enter_part(unsigned own, unsigned least, unsigned outside, int lanes_log2) {
  const int lanes = 1 << lanes_log2;
  const int at = static_cast<int>(threadIdx.x) & (lanes - 1);
  const int before = kForward ? at : lanes - 1 - at;
  const auto from = [&](unsigned value, int distance) {
    const auto step = static_cast<unsigned>(distance);
    return kForward ? __shfl_up_sync(kAllLanes, value, step, lanes)
                    : __shfl_down_sync(kAllLanes, value, step, lanes);
  };
  for (int distance = 1; distance < lanes; distance *= 2) {
    const unsigned other = from(own, distance);
    const unsigned other_least = from(least, distance);
    if (before < distance) continue;
    own = __vmaxu2(own, __vminu2(other, least));
    least = __vminu2(least, other_least);
  }
  const unsigned other = from(own, 1);
  const unsigned other_least = from(least, 1);
  return before == 0 ? outside : __vmaxu2(other, __vminu2(outside, other_least));
}

// The lines one warp closes at a time.
struct FigureGroup {
  const FigureLines* lines;
  int base;   // the lane's line
  int part;   // the lane's part of the window
  bool mine;  // false where there are fewer lines than lanes for them
};

// Closes one part of each line, as far as the pixels next to the window have come. Marks, for each
// changed pixel, the group of the crossing lines. Says whether anything changed. kStep is the step
// where it is known before: then addresses need no registers.
template <int kStep>
__device__ bool close_window(uint32_t* state, const FigureGroup& group, int window,
                             uint8_t* crossing, int crossing_log2) {
  const FigureLines& lines = *group.lines;
  const int step = kStep > 0 ? kStep : lines.step;
  const int part = (window << lines.lanes_log2) + group.part;
  uint32_t* first = state + group.base + part * lines.part_step;
  unsigned pixel[kPartPx];
#pragma unroll
  for (int i = 0; i < kPartPx; ++i) pixel[i] = first[i * step];
  unsigned last = 0;
  unsigned back = 0;
  unsigned least = 0x00FF00FF;
#pragma unroll
  for (int i = 0; i < kPartPx; ++i) {
    const unsigned reaches = reaches_of(pixel[i]);
    const unsigned values = values_of(pixel[i]);
    last = __vminu2(values, __vmaxu2(last, reaches));
    least = __vminu2(least, values);
    back = __vmaxu2(back, __vminu2(reaches, least));
  }
  const int lanes = 1 << lines.lanes_log2;
  const int first_part = part - group.part;
  unsigned before = 0;
  unsigned after = 0;
  if (window > 0)
    before =
        reaches_of(state[group.base + (first_part - 1) * lines.part_step + (kPartPx - 1) * step]);
  if (window + 1 < lines.windows)
    after = reaches_of(state[group.base + (first_part + lanes) * lines.part_step]);
  unsigned forward = enter_part<true>(last, least, before, lines.lanes_log2);
  unsigned backward = enter_part<false>(back, least, after, lines.lanes_log2);
  unsigned reaches[kPartPx];
#pragma unroll
  for (int i = 0; i < kPartPx; ++i) {
    forward = __vminu2(values_of(pixel[i]), __vmaxu2(forward, reaches_of(pixel[i])));
    reaches[i] = forward;
  }
  unsigned changed = 0;
#pragma unroll
  for (int i = kPartPx - 1; i >= 0; --i) {
    backward = __vminu2(values_of(pixel[i]), __vmaxu2(backward, reaches[i]));
    const unsigned now = with_reaches(pixel[i], backward);
    if (now == pixel[i] || !group.mine) continue;
    first[i * step] = now;
    changed |= 1U << i;
  }
  if (changed == 0) return false;
  const int across = 1 << crossing_log2;
  for (int i = 0; i < kPartPx; i += across)
    if ((changed >> i & ((1U << min(across, kPartPx)) - 1)) != 0)
      crossing[(part * kPartPx + i) >> crossing_log2] = 1;
  return true;
}

// Closes all rows, or all columns, that changed since. `line_base` gives a line's first word.
template <int kStep, class LineBase>
__device__ bool close_lines(uint32_t* state, const FigureLines& lines, uint8_t* groups,
                            uint8_t* crossing, int crossing_log2, const LineBase& line_base) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group_log2 = 5 - lines.lanes_log2;
  const int count = ceil_div(lines.lines, 1 << group_log2);
  bool changed = false;
  for (int at = static_cast<int>(threadIdx.x) / 32; at < count; at += warps_of_block()) {
    if (groups[at] == 0) continue;
    const int line = (at << group_log2) + (lane >> lines.lanes_log2);
    FigureGroup group{};
    group.lines = &lines;
    group.mine = line < lines.lines;
    group.base = line_base(group.mine ? line : lines.lines - 1);
    group.part = lane & ((1 << lines.lanes_log2) - 1);
    // Lines of more than 512 pixels: there and back.
    for (int i = 0; i < 2 * lines.windows - 1; ++i) {
      const int window = i < lines.windows ? i : 2 * lines.windows - 2 - i;
      changed |= close_window<kStep>(state, group, window, crossing, crossing_log2);
      __syncwarp();
    }
    if (lane == 0) groups[at] = 0;
  }
  return changed;
}

template <int kPitch>
__device__ void reach_border(const FigureLayout& layout, uint32_t* state, FigureShared& shared) {
  const int rows_log2 = 5 - layout.rows.lanes_log2;
  const int cols_log2 = 5 - layout.cols.lanes_log2;
  const auto row_base = [&](int y) { return word_at(layout, 0, y); };
  const auto col_base = [&](int x) { return word_at(layout, x, 0); };
  for (bool again = false;; again = true) {
    const bool in_rows =
        close_lines<1>(state, layout.rows, shared.rows, shared.cols, cols_log2, row_base);
    if (__syncthreads_or(in_rows ? 1 : 0) == 0 && again) return;
    const bool in_cols =
        close_lines<kPitch>(state, layout.cols, shared.cols, shared.rows, rows_log2, col_base);
    if (__syncthreads_or(in_cols ? 1 : 0) == 0) return;
  }
}

// Calls what(pixel, x, y) for every pixel of the picture.
template <class What>
__device__ void for_each_pixel(const FigureLayout& layout, const uint32_t* state,
                               const What& what) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int y = static_cast<int>(threadIdx.x) / 32; y < layout.size.height_px; y += warps_of_block())
    for (int x = lane; x < layout.size.width_px; x += 32) what(state[word_at(layout, x, y)], x, y);
}

// A pixel is surrounded from its reach on, up to below its value.
__device__ void count_surrounded(unsigned pixel, FigureShared& shared) {
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const unsigned reach = pixel >> 8 * side & 0xFF;
    const unsigned value = pixel >> (16 + 8 * side) & 0xFF;
    if (reach == value) continue;
    atomicAdd(&shared.steps[side][reach], 1);
    atomicAdd(&shared.steps[side][value], -1);
  }
}

template <class T>
__device__ T sum_of_lanes_before(T value, int lane) {
  T sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const T other = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(distance));
    if (lane >= distance) sum += other;
  }
  return sum - value;
}

// As figure_weight().
__device__ unsigned weight_of(int surrounded) {
  if (surrounded <= 0) return 0;
  return static_cast<unsigned>(
      __dadd_rn(__ddiv_rn(4096, __dsqrt_rn(static_cast<double>(surrounded))), 0.5));
}

// sums[v] = the weights of the thresholds below v. One warp; a lane has eight thresholds.
__device__ void sum_weights(const int* steps, unsigned* sums, int lane) {
  constexpr int kOwn = 8;
  int more = 0;
  for (int i = 0; i < kOwn; ++i) more += steps[lane * kOwn + i];
  int surrounded = sum_of_lanes_before(more, lane);
  unsigned weight[kOwn];
  unsigned all = 0;
  for (int i = 0; i < kOwn; ++i) {
    surrounded += steps[lane * kOwn + i];
    weight[i] = weight_of(surrounded);
    all += weight[i];
  }
  unsigned sum = sum_of_lanes_before(all, lane);
  for (int i = 0; i < kOwn; ++i) {
    sums[lane * kOwn + i] = sum;
    sum += weight[i];
  }
}

// grid: images, channels: the one with most passes first, that with fewest last
template <bool kInShared, int kPitch>
__global__ __launch_bounds__(kMostThreads) void measure(const __grid_constant__ FigureJob job) {
  __shared__ FigureShared shared;
  wait_for_previous();
  const FigureLayout& layout = job.layout;
  const auto image = static_cast<int64_t>(blockIdx.x);
  constexpr int kChannels = kFigureChannels;
  const int channel = (static_cast<int>(blockIdx.y) + kChannels - 1) % kChannels;
  const int64_t plane = image * kChannels + channel;
  uint32_t* state = kInShared ? dynamic_shared<uint32_t>() : job.state + plane * layout.words;
  const int thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < kMaxGroups; i += threads) shared.rows[i] = shared.cols[i] = 1;
  for (int i = thread; i < 512; i += threads) shared.steps[i / 256][i % 256] = 0;
  fill(job, image, channel, state);
  __syncthreads();
  reach_border<kPitch>(layout, state, shared);
  for_each_pixel(layout, state, [&](unsigned pixel, int, int) { count_surrounded(pixel, shared); });
  __syncthreads();
  if (thread < 64) sum_weights(shared.steps[thread / 32], shared.sums[thread / 32], thread % 32);
  __syncthreads();
  uint32_t* out = job.figure + plane * layout.size.width_px * layout.size.height_px;
  for_each_pixel(layout, state, [&](unsigned pixel, int x, int y) {
    out[y * layout.size.width_px + x] = shared.sums[0][pixel >> 16 & 0xFF] -
                                        shared.sums[0][pixel & 0xFF] + shared.sums[1][pixel >> 24] -
                                        shared.sums[1][pixel >> 8 & 0xFF];
  });
}

FigureLines lines_of(int lines, int length) {
  FigureLines made;
  made.lines = ceil_div(lines, kPartPx) * kPartPx;
  const int parts = ceil_div(length, kPartPx);
  while (made.lanes_log2 < 5 && 1 << made.lanes_log2 < parts) ++made.lanes_log2;
  made.windows = ceil_div(parts, 1 << made.lanes_log2);
  return made;
}

}  // namespace

FigureLayout lay_out_figure(Size size, size_t most_bytes) {
  FOVEA_CHECK(size.pixels() >= 1 && size.pixels() <= kFigurePixels);
  FigureLayout layout;
  layout.size = size;
  layout.rows = lines_of(size.height_px, size.width_px);
  layout.cols = lines_of(size.width_px, size.height_px);
  // The lanes of a row may have more parts than the row has; so may those of a column.
  const int wide = (layout.rows.windows << layout.rows.lanes_log2) * kPartPx;
  const int high = (layout.cols.windows << layout.cols.lanes_log2) * kPartPx;
  layout.cols.lines = wide;
  layout.rows.lines = high;
  const int least = wide + wide / kPartPx;
  const auto set_pitch = [&](int pitch) {
    layout.pitch = pitch;
    layout.words = high * pitch + high / kPartPx * kRowSkew;
  };
  set_pitch(ceil_div(least - 8, 32) * 32 + 8);
  if (static_cast<size_t>(layout.words) * sizeof(uint32_t) > most_bytes) set_pitch(least);
  layout.rows.step = 1;
  layout.rows.part_step = kPartPx + 1;
  layout.cols.step = layout.pitch;
  layout.cols.part_step = kPartPx * layout.pitch + kRowSkew;
  FOVEA_CHECK(ceil_div(wide << layout.cols.lanes_log2, 32) <= kMaxGroups &&
              ceil_div(high << layout.rows.lanes_log2, 32) <= kMaxGroups);
  return layout;
}

void measure_figure_cuda(cudaStream_t stream, const FigureJob& job) {
  const size_t bytes = static_cast<size_t>(job.layout.words) * sizeof(uint32_t);
  constexpr int kUsual = 136;  // of pictures 65 to 128 pixels wide
  const auto in_shared = job.layout.pitch == kUsual ? measure<true, kUsual> : measure<true, 0>;
  launch(
      job.state == nullptr ? in_shared : measure<false, 0>,
      {.grid = {static_cast<unsigned>(job.images), kFigureChannels},
       .block = static_cast<unsigned>(job.images <= kFewImages ? kMostThreads : kMostThreads / 2),
       .shared_bytes = job.state == nullptr ? bytes : 0,
       .stream = stream,
       .overlaps = true},
      job);
}

}  // namespace fovea
