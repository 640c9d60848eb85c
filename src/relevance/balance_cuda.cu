// SPDX-License-Identifier: Apache-2.0
// A thread owns one cell of one image: it takes the mean of the given coupling over the cell, then
// the three tensions and the relevance, in doubles that are added and multiplied one by one as the
// CPU does it.
#include "relevance/balance_cuda.h"

#include "base/check.h"
#include "device/cuda/kernel.h"
#include "relevance/coupling_span.h"

namespace fovea {
namespace {

constexpr int kBlock = 256;

struct WeaveJob {
  Size canvas;
  int level;
  Grid grid;
  Balance form;   // of the tensions
  Balance alone;  // of the relevance: one map, where it is one of those
  double compress_particularize, exploit_explore, focus_diversify;
  bool asked;
  bool same_grid;  // the given coupling is at the grid already
  DeviceMaps given;
  int given_level;  // whose grid the given map has, or -1: stretched over the canvas
  DeviceRelevance parts;
};

struct CellSpan {
  double begin_px, end_px;
};

__device__ CellSpan span_of_cell(int index, int level, int side_px) {
  const int64_t cell_px = int64_t{kCellPx} << level;
  return {static_cast<double>(index * cell_px),
          static_cast<double>(min((index + 1) * cell_px, int64_t{side_px}))};
}

// The given rows, or columns, along one side of the canvas.
struct GivenSide {
  int parts;
  int level;
  int side_px;

  __device__ CellSpan span(int index) const {
    if (level >= 0) return span_of_cell(index, level, side_px);
    return {__ddiv_rn(__dmul_rn(index, side_px), parts),
            __ddiv_rn(__dmul_rn(index + 1, side_px), parts)};
  }
  __device__ double shared_with(const CellSpan& cell, int index) const {
    const CellSpan given = span(index);
    return max(0.0, min(cell.end_px, given.end_px) - max(cell.begin_px, given.begin_px));
  }
  // The first part that shares pixels with the cell.
  __device__ int first(const CellSpan& cell) const {
    const double per_px = level >= 0 ? 1.0 / static_cast<double>(int64_t{kCellPx} << level)
                                     : static_cast<double>(parts) / side_px;
    int index = max(0, min(parts - 1, static_cast<int>(cell.begin_px * per_px) - 1));
    while (index + 1 < parts && shared_with(cell, index) <= 0) ++index;
    return index;
  }
};

// As couple_map() has it, in its order.
__device__ uint16_t fit_coupling(const WeaveJob& job, int64_t image, int row, int col) {
  const Grid from = job.given.grid;
  const uint16_t* given = job.given.score + image * from.rows * from.cols;
  if (job.same_grid) return given[row * from.cols + col];
  const GivenSide rows{from.rows, job.given_level, job.canvas.height_px};
  const GivenSide cols{from.cols, job.given_level, job.canvas.width_px};
  const CellSpan high = span_of_cell(row, job.level, job.canvas.height_px);
  const CellSpan wide = span_of_cell(col, job.level, job.canvas.width_px);
  const int first_col = cols.first(wide);
  double sum = 0;
  double weight = 0;
  for (int r = rows.first(high); r < from.rows; ++r) {
    const double shared_rows = rows.shared_with(high, r);
    if (shared_rows <= 0) break;
    for (int c = first_col; c < from.cols; ++c) {
      const double shared_cols = cols.shared_with(wide, c);
      if (shared_cols <= 0) break;
      const double shared_px = __dmul_rn(shared_rows, shared_cols);
      sum = __dadd_rn(sum, __dmul_rn(shared_px, given[int64_t{r} * from.cols + c]));
      weight = __dadd_rn(weight, shared_px);
    }
  }
  return static_cast<uint16_t>(min(65535.0, __dadd_rn(__ddiv_rn(sum, weight), 0.5)));
}

__device__ double to_unit(uint16_t score) { return __ddiv_rn(score, 65535); }
__device__ uint16_t to_score(double unit) {
  return static_cast<uint16_t>(__dadd_rn(__dmul_rn(unit, 65535), 0.5));
}

// As navigate().
__device__ double tension(Balance form, double a, double b, double weight) {
  const bool product = form == Balance::kProduct;
  if (weight >= 1) return product ? __dmul_rn(a, a) : a;
  if (weight <= 0) return product ? __dmul_rn(b, b) : b;
  if (product) return __dmul_rn(pow(a, 2 * weight), pow(b, 2 * (1 - weight)));
  if (form == Balance::kSum)
    return min(1.0, __dadd_rn(__dmul_rn(weight, a), __dmul_rn(1 - weight, b)));
  if (a <= 0 || b <= 0) return 0;
  return min(1.0, __ddiv_rn(1, __dadd_rn(__ddiv_rn(weight, a), __ddiv_rn(1 - weight, b))));
}

// grid: cells / 256, images
__global__ __launch_bounds__(kBlock) void weave(const __grid_constant__ WeaveJob job) {
  const auto image = static_cast<int64_t>(blockIdx.y);
  const int cells = job.grid.rows * job.grid.cols;
  const int cell = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  if (cell >= cells) return;
  const int64_t at = image * cells + cell;
  const DeviceRelevance& parts = job.parts;
  const uint16_t informs = parts.information.score[at];
  const uint16_t stands_out = parts.salience.score[at];
  uint16_t asked = stands_out;
  if (job.asked) {
    asked = fit_coupling(job, image, cell / job.grid.cols, cell % job.grid.cols);
    parts.coupling.score[at] = asked;
  }
  const double information = to_unit(informs);
  const double salience = to_unit(stands_out);
  const double coupling = to_unit(asked);
  const double compress = tension(job.form, information, salience, job.compress_particularize);
  const double exploit = tension(job.form, coupling, information, job.exploit_explore);
  const double focus = tension(job.form, coupling, salience, job.focus_diversify);
  parts.compress_particularize.score[at] = to_score(compress);
  parts.exploit_explore.score[at] = to_score(exploit);
  parts.focus_diversify.score[at] = to_score(focus);
  uint16_t relevance = 0;
  if (job.alone == Balance::kCoupling) {
    relevance = asked;
  } else if (job.alone == Balance::kSalience) {
    relevance = stands_out;
  } else if (job.alone == Balance::kInformation) {
    relevance = informs;
  } else if (job.form == Balance::kProduct) {
    relevance = to_score(cbrt(__dmul_rn(__dmul_rn(compress, exploit), focus)));
  } else {
    relevance = to_score(__ddiv_rn(__dadd_rn(__dadd_rn(compress, exploit), focus), 3));
  }
  parts.relevance.score[at] = relevance;
}

struct PointsJob {
  Grid grid;
  double half_px;
  DevicePoints points;
  uint16_t* score;
};

// grid: cells / 256, images
__global__ __launch_bounds__(kBlock) void couple_points(const PointsJob job) {
  const auto image = static_cast<int64_t>(blockIdx.y);
  const int cells = job.grid.rows * job.grid.cols;
  const int cell = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  if (cell >= cells) return;
  const double y = (cell / job.grid.cols + 0.5) * kCellPx;
  const double x = (cell % job.grid.cols + 0.5) * kCellPx;
  const Point* points = job.points.points + image * job.points.room;
  double nearest = 0;
  for (int i = 0; i < job.points.counts[image]; ++i) {
    const double dx = x - points[i].x_px;
    const double dy = y - points[i].y_px;
    const double square = __dadd_rn(__dmul_rn(dx, dx), __dmul_rn(dy, dy));
    nearest = i == 0 ? square : min(nearest, square);
  }
  const bool any = job.points.counts[image] > 0;
  const double score = any ? exp2(__ddiv_rn(-nearest, __dmul_rn(job.half_px, job.half_px))) : 0.0;
  job.score[image * cells + cell] = to_score(score);
}

LaunchShape shape_of(cudaStream_t stream, Grid grid, int images) {
  return {.grid = {static_cast<unsigned>(ceil_div(grid.cells(), int64_t{kBlock})),
                   static_cast<unsigned>(images)},
          .block = kBlock,
          .stream = stream};
}

}  // namespace

void weave_coupling_cuda(cudaStream_t stream, Size canvas, const DeviceMaps* coupling,
                         const RelevanceParams& params, const DeviceRelevance& parts) {
  WeaveJob job{};
  job.canvas = canvas;
  job.level = params.level;
  job.grid = grid_at(canvas, params.level);
  for (const DeviceMaps* map : {&parts.information, &parts.salience, &parts.compress_particularize,
                                &parts.exploit_explore, &parts.focus_diversify, &parts.relevance})
    FOVEA_CHECK(map->grid == job.grid && map->images == parts.relevance.images &&
                map->score != nullptr);
  const bool alone = params.balance == Balance::kCoupling || params.balance == Balance::kSalience ||
                     params.balance == Balance::kInformation;
  // The tensions of one map alone are those of the default form: they decide nothing.
  job.form = alone ? Balance::kMean : params.balance;
  job.alone = params.balance;
  job.compress_particularize = params.compress_particularize;
  job.exploit_explore = params.exploit_explore;
  job.focus_diversify = params.focus_diversify;
  job.parts = parts;
  if (coupling != nullptr) {
    FOVEA_CHECK(coupling->grid.cells() > 0 && coupling->images == parts.relevance.images &&
                parts.coupling.grid == job.grid && parts.coupling.score != nullptr);
    job.asked = true;
    job.given = *coupling;
    job.given_level = level_of(coupling->grid, canvas);
    job.same_grid = coupling->grid == job.grid;
  }
  launch(weave, shape_of(stream, job.grid, parts.relevance.images), job);
}

void couple_points_cuda(cudaStream_t stream, Size canvas, const DevicePoints& points,
                        const DeviceMaps& coupling) {
  FOVEA_CHECK(coupling.grid == grid_at(canvas, 0) && coupling.images == points.images);
  const PointsJob job{coupling.grid, max(canvas.width_px, canvas.height_px) / 10.0, points,
                      coupling.score};
  launch(couple_points, shape_of(stream, coupling.grid, coupling.images), job);
}

}  // namespace fovea
