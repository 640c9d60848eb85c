// SPDX-License-Identifier: Apache-2.0
// Scenes for tests and benches: the same for the same seed, on every machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "fovea/words.h"
#include "gaze/cell_tree.h"
#include "gaze/gaze.h"

namespace fovea {

// splitmix64. The distributions of the standard library differ between its makers.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [low, high].
  int range(int low, int high) {
    return low + static_cast<int>(next() % (static_cast<uint64_t>(high) - low + 1));
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // in [0, 1)
  bool one_in(int count) { return range(1, count) == 1; }

 private:
  uint64_t state_;
};

// Owns what a Scene points at.
struct OwnedScene {
  Map relevance;
  Detail detail;
  Scene scene;

  OwnedScene() = default;
  OwnedScene(const OwnedScene&) = delete;
  OwnedScene& operator=(const OwnedScene&) = delete;
};

inline void fill_relevance(Random& random, Map& map) {
  const int kind = random.range(0, 5);
  const int row = random.range(0, map.grid.rows - 1);
  const int col = random.range(0, map.grid.cols - 1);
  const auto flat = static_cast<uint16_t>(random.range(0, UINT16_MAX));
  size_t place = 0;
  for (int r = 0; r < map.grid.rows; ++r) {
    for (int c = 0; c < map.grid.cols; ++c, ++place) {
      const auto noise = static_cast<uint16_t>(random.next());
      uint16_t& score = map.score[place];
      if (kind <= 1) score = noise;
      if (kind == 2) score = static_cast<uint16_t>(noise % 4 * 21'845);  // many ties
      if (kind == 3) score = flat;
      if (kind == 4) score = noise % 16 == 0 ? noise : 0;  // a few peaks
      if (kind == 5)
        score = static_cast<uint16_t>(
            UINT16_MAX / (1 + (r - row) * (r - row) + (c - col) * (c - col)));  // one hill
    }
  }
}

// lost[l] is at least the sum of what the finer cells lose, as for a real pyramid.
inline void fill_detail(Random& random, const CellTree& tree, Detail& detail) {
  const int quiet = random.range(1, 4);  // one cell in so many has detail of its own
  const int bits = random.range(1, 36);  // how large it may be
  for (int level = 0; level < tree.levels(); ++level) {
    const Grid grid = tree.grid(level);
    detail.grid.push_back(grid);
    std::vector<uint64_t> lost(static_cast<size_t>(grid.cells()), 0);
    size_t place = 0;
    for (int row = 0; level > 0 && row < grid.rows; ++row) {
      for (int col = 0; col < grid.cols; ++col, ++place) {
        if (random.one_in(quiet)) lost[place] = random.next() >> (64 - bits);
        for (const Cell& child : tree.children({level, row, col})) lost[place] += detail.at(child);
      }
    }
    detail.lost.push_back(std::move(lost));
  }
}

// A canvas of `grid` cells; `ragged` leaves it short of whole cells, as no real canvas is.
inline Size canvas_of(Grid grid, int ragged_px = 0) {
  return {grid.cols * kCellPx - ragged_px, grid.rows * kCellPx - ragged_px};
}

inline void fill_scene(Random& random, Size canvas, int budget_tokens, OwnedScene& owned) {
  const CellTree tree(canvas);
  owned.relevance = Map(tree.grid(0));
  fill_relevance(random, owned.relevance);
  owned.detail = {};
  fill_detail(random, tree, owned.detail);
  owned.scene = {.canvas = canvas,
                 .relevance = &owned.relevance,
                 .detail = &owned.detail,
                 .fixations = {},
                 .budget_tokens = budget_tokens,
                 .params = {}};
}

// Mostly small grids, some long and thin, some square powers of two, now and then a larger one.
inline Grid random_grid(Random& random, int largest) {
  const int kind = random.range(0, 15);
  if (kind == 0) return {1, random.range(1, largest)};
  if (kind == 1) return {random.range(1, largest), 1};
  if (kind == 2) return {random.range(1, 3), random.range(1, largest)};
  if (kind == 3) {
    const int side = std::min(1 << random.range(0, 5), largest);
    return {side, side};
  }
  if (kind == 4) return {random.range(1, largest), random.range(1, largest)};
  return {random.range(1, 12), random.range(1, 12)};
}

// Everything a scene can be: budgets from 1 to beyond all cells, fixations, parameters off their
// defaults.
inline void fill_random_scene(Random& random, Grid grid, OwnedScene& owned) {
  const Size canvas = canvas_of(grid, random.one_in(8) ? random.range(1, kCellPx - 1) : 0);
  const auto cells = static_cast<int>(grid.cells());
  int budget_tokens = random.range(1, std::min(cells * 2, 16 << random.range(0, 8)));
  if (random.one_in(50)) budget_tokens = INT32_MAX;
  fill_scene(random, canvas, budget_tokens, owned);
  for (int count = random.one_in(2) ? random.range(1, 4) : 0; count > 0; --count)
    owned.scene.fixations.push_back(
        {random.unit() * canvas.width_px, random.unit() * canvas.height_px});
  if (random.one_in(2)) return;
  GazeParams& params = owned.scene.params;
  params.fixation_count = random.range(1, 6);
  params.cortical_e0 = random.one_in(2) ? 0 : random.unit();
  params.thresholds = {0.5 + random.unit() / 2, 0.5, random.unit() / 2};
  params.temperature = random.one_in(4) ? 1e-9 : random.unit() + 0.01;
  params.quadtree_from_root = random.one_in(2);
  params.neighbour_bonus = random.unit() * 2;
  params.crowding = random.unit();
}

inline uint16_t score(double relevance) {
  return static_cast<uint16_t>(std::lround(relevance * UINT16_MAX));
}

// Detail that is the same everywhere: a cell of level l loses `l` for each level-0 cell under it.
inline void make_detail_even(const CellTree& tree, Detail& detail) {
  for (int level = 0; level < tree.levels(); ++level)
    for (const Cell& cell : tree.cells_of(level))
      detail.lost[static_cast<size_t>(level)]
                 [static_cast<size_t>(cell.row) * tree.grid(level).cols + cell.col] =
          static_cast<uint64_t>(tree.block(cell).cells() * level);
}

// A scene whose right answer is easy to say: even detail, and relevance that a test sets by hand.
struct Setting : OwnedScene {
  Setting(Grid grid, int budget_tokens, uint16_t relevance_everywhere) {
    Random random(31);
    fill_scene(random, canvas_of(grid), budget_tokens, *this);
    relevance = Map(grid, relevance_everywhere);
    make_detail_even(CellTree(scene.canvas), detail);
  }
  std::vector<Cell> plan(MakerKind maker) const { return make_plan(maker, scene)->cells; }
};

}  // namespace fovea
