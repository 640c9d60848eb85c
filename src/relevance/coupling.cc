// SPDX-License-Identifier: Apache-2.0
#include "relevance/coupling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "relevance/coupling_span.h"

namespace fovea {
namespace {

// The given rows (or columns) that one row (or column) of cells shares pixels with.
struct Overlap {
  int first = 0;
  std::vector<double> shared_px;
};

template <class GivenSpan>
std::vector<Overlap> list_overlaps(int cells, int level, int side_px, int given,
                                   const GivenSpan& given_span) {
  std::vector<PxSpan> spans;
  spans.reserve(static_cast<size_t>(given));
  for (int i = 0; i < given; ++i) spans.push_back(given_span(i));
  std::vector<Overlap> overlaps(static_cast<size_t>(cells));
  int first = 0;
  for (int cell = 0; cell < cells; ++cell) {
    const PxSpan span = level_span(cell, level, side_px);
    while (first + 1 < given && shared(span, spans[static_cast<size_t>(first)]) <= 0) ++first;
    Overlap& overlap = overlaps[static_cast<size_t>(cell)];
    overlap.first = first;
    for (int i = first; i < given; ++i) {
      const double px = shared(span, spans[static_cast<size_t>(i)]);
      if (px <= 0) break;
      overlap.shared_px.push_back(px);
    }
  }
  return overlaps;
}

uint16_t weighted_mean(const Map& given, const Overlap& rows, const Overlap& cols) {
  double sum = 0;
  double weight = 0;
  for (size_t r = 0; r < rows.shared_px.size(); ++r) {
    for (size_t c = 0; c < cols.shared_px.size(); ++c) {
      const double shared_px = rows.shared_px[r] * cols.shared_px[c];
      sum +=
          shared_px * given.at(rows.first + static_cast<int>(r), cols.first + static_cast<int>(c));
      weight += shared_px;
    }
  }
  return static_cast<uint16_t>(std::min(65535.0, sum / weight + 0.5));
}

}  // namespace

Map couple_points(std::span<const Point> points, Size canvas) {
  Map map(grid_at(canvas, 0));
  const double half_px = std::max(canvas.width_px, canvas.height_px) / 10.0;
  for (int row = 0; row < map.grid.rows; ++row) {
    for (int col = 0; col < map.grid.cols; ++col) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const Point& point : points) {
        const double dx = (col + 0.5) * kCellPx - point.x_px;
        const double dy = (row + 0.5) * kCellPx - point.y_px;
        nearest = std::min(nearest, dx * dx + dy * dy);
      }
      const double score = std::exp2(-nearest / (half_px * half_px));
      map.at(row, col) = static_cast<uint16_t>(score * 65535 + 0.5);
    }
  }
  return map;
}

Result<Map> couple_map(const Map& given, Size canvas, int level) {
  const Grid from = given.grid;
  if (from.rows < 1 || from.cols < 1 || given.score.size() != static_cast<size_t>(from.cells()))
    return bad_input(
        fmt::format("coupling map: {} scores for a grid of {} rows and {} columns; give "
                    "one score a cell",
                    given.score.size(), from.rows, from.cols));
  if (level < 0 || level >= level_count(canvas))
    return bad_input(fmt::format("coupling map: level {} of a canvas that has levels 0 to {}",
                                 level, level_count(canvas) - 1));
  Map map(grid_at(canvas, level));
  if (map.grid == from) {
    map.score = given.score;
    return map;
  }
  const auto rows = list_overlaps(map.grid.rows, level, canvas.height_px, from.rows,
                                  [&](int r) { return given_row_span(from, r, canvas); });
  const auto cols = list_overlaps(map.grid.cols, level, canvas.width_px, from.cols,
                                  [&](int c) { return given_col_span(from, c, canvas); });
  size_t cell = 0;
  for (const Overlap& row : rows)
    for (const Overlap& col : cols) map.score[cell++] = weighted_mean(given, row, col);
  return map;
}

}  // namespace fovea
