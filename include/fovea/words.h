// SPDX-License-Identifier: Apache-2.0
// The nouns every room shares. src/README.md holds the full list of words.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fovea {

inline constexpr int kPatchPx = 16;  // a patch is 16x16 px of one level
inline constexpr int kCellPx = 32;   // a cell is 2x2 patches, one language-model token

struct Size {
  int width_px = 0;
  int height_px = 0;

  int64_t pixels() const { return int64_t{width_px} * height_px; }
  friend bool operator==(const Size&, const Size&) = default;
};

// A place in pixels, x to the right, y downwards; which picture it belongs to is said where it is
// used.
struct Point {
  double x_px = 0;
  double y_px = 0;

  friend bool operator==(const Point&, const Point&) = default;
};

// Decoded pixels: 8-bit RGB, interleaved, rows without padding.
struct Image {
  Size size;
  std::vector<uint8_t> rgb;  // [height][width][3]

  Image() = default;
  explicit Image(Size image_size)
      : size(image_size), rgb(static_cast<size_t>(image_size.pixels()) * 3) {}

  const uint8_t* row(int y) const {
    return rgb.data() + static_cast<size_t>(y) * size.width_px * 3;
  }
  uint8_t* row(int y) { return rgb.data() + static_cast<size_t>(y) * size.width_px * 3; }
};

// 32x32 px of one level = one token; at level l it covers 32*2^l canvas pixels.
struct Cell {
  int level = 0;
  int row = 0;
  int col = 0;

  // The canvas pixels one side of the cell covers.
  int side_px() const { return kCellPx << level; }
  friend bool operator==(const Cell&, const Cell&) = default;
  // The order of a plan: coarse first, row-major within a level.
  friend std::strong_ordering operator<=>(const Cell& a, const Cell& b) {
    if (a.level != b.level) return b.level <=> a.level;
    if (a.row != b.row) return a.row <=> b.row;
    return a.col <=> b.col;
  }
};

// The cells of one level of a canvas: rows x cols.
struct Grid {
  int rows = 0;
  int cols = 0;

  int64_t cells() const { return int64_t{rows} * cols; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

inline Grid grid_at(Size canvas, int level) {
  const int side_px = kCellPx << level;
  return {(canvas.height_px + side_px - 1) / side_px, (canvas.width_px + side_px - 1) / side_px};
}

// Levels go on until one cell covers the canvas; the count includes level 0.
inline int level_count(Size canvas) {
  int levels = 1;
  while (grid_at(canvas, levels - 1).cells() > 1) ++levels;
  return levels;
}

// A score in [0,1] for every cell of one level, as uint16 (0..65535) so that the same map gives the
// same plan on every device.
struct Map {
  Grid grid;
  std::vector<uint16_t> score;  // [rows][cols]

  Map() = default;
  explicit Map(Grid map_grid, uint16_t value = 0)
      : grid(map_grid), score(static_cast<size_t>(map_grid.cells()), value) {}

  uint16_t at(int row, int col) const { return score[static_cast<size_t>(row) * grid.cols + col]; }
  uint16_t& at(int row, int col) { return score[static_cast<size_t>(row) * grid.cols + col]; }
  bool empty() const { return score.empty(); }
};

// The cells that become tokens: in the order of Cell, no cell twice, never more than the budget.
struct Plan {
  std::string maker;  // "quadtree", "uniform", ...
  int budget_tokens = 0;
  std::vector<Cell> cells;

  int tokens() const { return static_cast<int>(cells.size()); }
};

// How long one stage of a run took: "decode", "pyramid", "relevance", ...
struct StageTime {
  std::string stage;
  double ms = 0;
};

// One thing this machine can compute on.
struct Device {
  std::string name;         // as --device takes it: "cpu", "cuda:0", "vulkan:1"
  std::string description;  // what its maker calls it, and what it offers
};

}  // namespace fovea
