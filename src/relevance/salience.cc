// SPDX-License-Identifier: Apache-2.0
#include "relevance/salience.h"

#include <cmath>

#include "base/check.h"
#include "relevance/box_sum.h"

namespace fovea {
namespace {

constexpr int kBlurRadius = 2;
constexpr int kBlurTimes = 2;
constexpr double kFloor = 0.02;
constexpr double kCentre = 2.0;

// The mean of the work pixels a cell covers; integers, so that the order of summing is free.
double mean_over(const Plane& plane, int row, int col, int side) {
  const int end_y = std::min((row + 1) * side, plane.size.height_px);
  const int end_x = std::min((col + 1) * side, plane.size.width_px);
  uint64_t sum = 0;
  for (int y = row * side; y < end_y; ++y)
    for (int x = col * side; x < end_x; ++x) sum += plane.row(y)[x];
  return static_cast<double>(sum) / ((end_y - row * side) * (end_x - col * side));
}

// Between the centres of the work pixels, at the centre of a cell that is `side` of one wide.
double interpolate_at(const Plane& plane, int row, int col, double side) {
  const int last_y = plane.size.height_px - 1;
  const int last_x = plane.size.width_px - 1;
  const double y = std::clamp((row + 0.5) * side - 0.5, 0.0, static_cast<double>(last_y));
  const double x = std::clamp((col + 0.5) * side - 0.5, 0.0, static_cast<double>(last_x));
  const int y0 = static_cast<int>(y);
  const int x0 = static_cast<int>(x);
  const uint32_t* upper = plane.row(y0);
  const uint32_t* lower = plane.row(std::min(y0 + 1, last_y));
  const int x1 = std::min(x0 + 1, last_x);
  const double right = x - x0;
  const double down = y - y0;
  return (upper[x0] * (1 - right) + upper[x1] * right) * (1 - down) +
         (lower[x0] * (1 - right) + lower[x1] * right) * down;
}

// The plane at the cells of a level, divided by its largest value.
std::vector<double> unit_cells(const Plane& plane, int work_level, Grid grid, int level) {
  std::vector<double> cells;
  cells.reserve(static_cast<size_t>(grid.cells()));
  const bool covers = (kCellPx << level) >> work_level >= 1;
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col)
      cells.push_back(
          covers ? mean_over(plane, row, col, (kCellPx << level) >> work_level)
                 : interpolate_at(plane, row, col, std::ldexp(kCellPx, level - work_level)));
  const double largest = *std::max_element(cells.begin(), cells.end());
  if (largest > 0)
    for (double& cell : cells) cell /= largest;
  return cells;
}

// The middle of a cell's part of the canvas, -1 at one end and 1 at the other; mirrored exactly.
double offset_of(int index, int level, int side_px) {
  const int64_t cell_px = int64_t{kCellPx} << level;
  const int64_t begin_px = index * cell_px;
  const int64_t end_px = std::min<int64_t>(begin_px + cell_px, side_px);
  return static_cast<double>(begin_px + end_px - side_px) / side_px;
}

}  // namespace

int salience_work_level(const Pyramid& pyramid) {
  int level = 0;
  while (pyramid.level(level).size.pixels() > kFigurePixels) ++level;
  return level;
}

Map combine_salience(const Plane& figure, const Plane& texture, int work_level, Size canvas,
                     const SalienceParams& params) {
  Map map(grid_at(canvas, params.level));
  const std::vector<double> f_cells = unit_cells(figure, work_level, map.grid, params.level);
  const std::vector<double> t_cells = unit_cells(texture, work_level, map.grid, params.level);
  std::vector<double> salience(f_cells.size());
  double largest = 0;
  double anything = 0;
  size_t cell = 0;
  for (int row = 0; row < map.grid.rows; ++row) {
    const double y = offset_of(row, params.level, canvas.height_px);
    for (int col = 0; col < map.grid.cols; ++col, ++cell) {
      const double f = (f_cells[cell] + kFloor) / (1 + kFloor);
      const double t = (t_cells[cell] + kFloor) / (1 + kFloor);
      // Roots of roots: exact to the last bit everywhere, which a general power is not.
      const double sharpened = f * std::sqrt(std::sqrt(f)) * std::sqrt(t * std::sqrt(t));
      const double x = offset_of(col, params.level, canvas.width_px);
      const double centre = params.centre_bias ? 1 / (1 + kCentre * std::sqrt(x * x + y * y)) : 1;
      salience[cell] = sharpened * centre;
      largest = std::max(largest, salience[cell]);
      anything = std::max({anything, f_cells[cell], t_cells[cell]});
    }
  }
  if (anything > 0)
    for (size_t i = 0; i < salience.size(); ++i)
      map.score[i] = static_cast<uint16_t>(salience[i] / largest * 65535 + 0.5);
  return map;
}

Map measure_salience(Threads& threads, const Pyramid& pyramid, const SalienceParams& params) {
  FOVEA_CHECK(params.level >= 0 && params.level < pyramid.levels());
  const int work = salience_work_level(pyramid);
  const int finer = std::max(0, work - 2);
  const LevelView level = pyramid.level(work);
  const Plane texture = measure_texture(threads, pyramid.level(finer), 1 << (work - finer));
  const Plane around = box_sum(texture, 1, 1);
  std::vector<ChannelValues> channels(static_cast<size_t>(level.size.pixels()));
  size_t pixel = 0;
  for (int y = 0; y < level.size.height_px; ++y)
    for (int x = 0; x < level.size.width_px; ++x, ++pixel)
      set_channels(level.row(y) + 3 * x, around.value[pixel], channels[pixel]);
  const Plane figure = measure_figure(level.size, channels);
  return combine_salience(box_sum(figure, kBlurRadius, kBlurTimes),
                          box_sum(texture, kBlurRadius, kBlurTimes), work, pyramid.canvas(),
                          params);
}

}  // namespace fovea
