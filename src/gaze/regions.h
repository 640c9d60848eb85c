// SPDX-License-Identifier: Apache-2.0
// The regions of the proportional plan, and how many tokens each gets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "gaze/cell_tree.h"
#include "gaze/gaze.h"

namespace fovea {

// A region read at one level has 8x8, 12x12, 16x16 or 20x20 cells for 64, 144, 256 or 400 tokens.
inline constexpr int kRegionMinTokens = 64;
inline constexpr int kRegionMaxTokens = 400;

// Half of what the smallest share would allow: at budget/64 regions each gets exactly 64 tokens and
// relevance has nothing left to give; with half as many, half of the tokens follow it.
inline constexpr int kMeanRegionTokens = 2 * kRegionMinTokens;

// The canvas as a grid of at most budget/64 regions, nearly square; one region for a budget under
// 64. Borders lie on cells coarse enough that each region is at most 64 of them. Kernels use it
// too.
struct RegionLayout {
  Grid cells;     // of level 0
  Grid regions;   // how many
  int level = 0;  // of the cells that borders lie on
  Grid coarse;    // the cells of that level

  // In row-major order.
  constexpr CellBlock block(int index) const {
    const int row = index / regions.cols;
    const int col = index % regions.cols;
    return {border(row, regions.rows, coarse.rows, cells.rows),
            border(row + 1, regions.rows, coarse.rows, cells.rows),
            border(col, regions.cols, coarse.cols, cells.cols),
            border(col + 1, regions.cols, coarse.cols, cells.cols)};
  }

 private:
  constexpr int border(int64_t index, int parts, int coarse_size, int size) const {
    const int64_t place = index * coarse_size / parts << level;
    return place < size ? static_cast<int>(place) : size;
  }
};

// The grid with at most `most` regions whose regions are nearest to square; the one with more
// regions, then with fewer columns, where two are equal.
inline Grid region_grid(Grid cells, int64_t most) {
  Grid best{1, 1};
  double best_aspect = std::numeric_limits<double>::infinity();
  for (int cols = 1; cols <= std::min<int64_t>(most, cells.cols); ++cols) {
    const Grid grid{static_cast<int>(std::min<int64_t>(most / cols, cells.rows)), cols};
    const double tall = static_cast<double>(cells.rows) / grid.rows;
    const double wide = static_cast<double>(cells.cols) / grid.cols;
    const double aspect = std::max(tall / wide, wide / tall);
    if (aspect > best_aspect || (aspect == best_aspect && grid.cells() <= best.cells())) continue;
    best = grid;
    best_aspect = aspect;
  }
  return best;
}

inline RegionLayout region_layout(Grid cells, int budget_tokens) {
  const int64_t useful_tokens = std::min<int64_t>(budget_tokens, cells.cells());
  RegionLayout layout;
  layout.cells = layout.coarse = cells;
  layout.regions = region_grid(cells, std::max<int64_t>(1, useful_tokens / kMeanRegionTokens));
  const auto parts = [](int size, int by) { return int64_t{(size + by - 1) / by}; };
  while (parts(layout.coarse.rows, layout.regions.rows) *
             parts(layout.coarse.cols, layout.regions.cols) >
         kRegionMinTokens) {
    ++layout.level;
    layout.coarse = {(layout.coarse.rows + 1) / 2, (layout.coarse.cols + 1) / 2};
  }
  return layout;
}

// All regions of the layout for a canvas.
std::vector<CellBlock> region_blocks(const CellTree& tree, int budget_tokens);

// exp((relevance - highest) / temperature), the softmax without its common factor, computed with
// additions, multiplications and divisions alone: the same bits on every device.
std::vector<double> softmax_weights(std::span<const double> relevance, double temperature);

struct TokenBounds {
  int64_t least = 0;
  int64_t most = 0;
};

// Water-filling in whole tokens: shares in proportion to the weights, except where a bound holds
// them, that add up to `total` (which lies between the sums of the bounds). From the least on, each
// token goes to the region with the largest weight / (tokens + 1), the first of those that are
// equal.
std::vector<int64_t> share_tokens(std::span<const double> weights,
                                  std::span<const TokenBounds> bounds, int64_t total);
std::vector<int64_t> share_tokens_reference(std::span<const double> weights,
                                            std::span<const TokenBounds> bounds, int64_t total);

// The least and most tokens of each region, and the total that is to be shared.
struct TokenLimits {
  std::vector<TokenBounds> bounds;
  int64_t total = 0;
};
TokenLimits token_limits(std::span<const CellBlock> regions, int budget_tokens);

}  // namespace fovea
