// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "gaze/gaze.h"

namespace fovea {
namespace {

// Inhibition of return reaches an eighth of the canvas's longer side. On 100 photographs, a
// cortical plan of 68 tokens with three such fixations reads 63 % of where 15 people looked at
// level 0 or 1; with one fixation 52 %, and with a reach of 0.4, which pushes the others into the
// corners, 55 %.
constexpr int64_t kInhibitionParts = 8;

// The middle of what a level-0 cell covers.
double middle_px(int index, int size_px) {
  const int64_t begin_px = int64_t{index} * kCellPx;
  return static_cast<double>(begin_px + std::min<int64_t>(begin_px + kCellPx, size_px)) / 2;
}

// What has just been looked at is worth nothing, and its surroundings less the nearer they are: the
// score falls to score x (distance / reach)^2. In whole numbers, so that every device agrees.
void inhibit(Map& map, int row, int col) {
  const int64_t longer = std::max(map.grid.rows, map.grid.cols);
  const int64_t reach_squared = longer * longer;  // distances below are multiplied by 8 instead
  const auto reach = static_cast<int>(longer / kInhibitionParts);
  for (int r = std::max(row - reach, 0); r <= std::min(row + reach, map.grid.rows - 1); ++r) {
    for (int c = std::max(col - reach, 0); c <= std::min(col + reach, map.grid.cols - 1); ++c) {
      const int64_t distance_squared =
          (int64_t{r - row} * (r - row) + int64_t{c - col} * (c - col)) * kInhibitionParts *
          kInhibitionParts;
      if (distance_squared < reach_squared)
        map.at(r, c) = static_cast<uint16_t>(map.at(r, c) * distance_squared / reach_squared);
    }
  }
}

}  // namespace

std::vector<Point> find_clusters(std::span<const Cell> look, const Map& relevance, Size canvas,
                                 int most) {
  const Grid grid = relevance.grid;
  Map waiting(grid);
  for (const Cell& cell : look)
    if (cell.level == 0) waiting.at(cell.row, cell.col) = 1;
  struct Cluster {
    double weight = 0;
    double x_px = 0;
    double y_px = 0;
  };
  std::vector<Cluster> clusters;
  for (const Cell& start : look) {
    if (start.level != 0 || waiting.at(start.row, start.col) == 0) continue;
    Cluster& cluster = clusters.emplace_back();
    std::vector<Cell> edge = {start};
    waiting.at(start.row, start.col) = 0;
    while (!edge.empty()) {
      const Cell cell = edge.back();
      edge.pop_back();
      // One more than its score, so that a look at nothing relevant has a middle too.
      const double weight = relevance.at(cell.row, cell.col) + 1.0;
      cluster.weight += weight;
      cluster.x_px += weight * middle_px(cell.col, canvas.width_px);
      cluster.y_px += weight * middle_px(cell.row, canvas.height_px);
      for (int r = std::max(cell.row - 1, 0); r <= std::min(cell.row + 1, grid.rows - 1); ++r)
        for (int c = std::max(cell.col - 1, 0); c <= std::min(cell.col + 1, grid.cols - 1); ++c)
          if (std::exchange(waiting.at(r, c), 0) != 0) edge.push_back({0, r, c});
    }
  }
  std::stable_sort(clusters.begin(), clusters.end(),
                   [](const Cluster& a, const Cluster& b) { return a.weight > b.weight; });
  std::vector<Point> middles;
  for (const Cluster& cluster : clusters)
    if (static_cast<int>(middles.size()) < most)
      middles.push_back({cluster.x_px / cluster.weight, cluster.y_px / cluster.weight});
  return middles;
}

std::vector<Point> find_fixations(const Map& relevance, Size canvas, int count) {
  FOVEA_CHECK(relevance.grid == grid_at(canvas, 0) && !relevance.empty());
  const auto [lowest, highest] =
      std::minmax_element(relevance.score.begin(), relevance.score.end());
  if (*lowest == *highest && count > 0) return {{canvas.width_px / 2.0, canvas.height_px / 2.0}};

  std::vector<Point> fixations;
  Map left = relevance;
  while (static_cast<int>(fixations.size()) < count) {
    const auto best = std::max_element(left.score.begin(), left.score.end());
    if (*best == 0) break;
    const auto place = static_cast<int>(best - left.score.begin());
    const int row = place / left.grid.cols;
    const int col = place % left.grid.cols;
    fixations.push_back({middle_px(col, canvas.width_px), middle_px(row, canvas.height_px)});
    inhibit(left, row, col);
  }
  return fixations;
}

}  // namespace fovea
