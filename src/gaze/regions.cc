// SPDX-License-Identifier: Apache-2.0
#include "gaze/regions.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "base/check.h"

namespace fovea {
namespace {

// Half of what the smallest share would allow: at budget/64 regions each gets exactly 64 tokens and
// relevance has nothing left to give; with half as many, half of the tokens follow it.
constexpr int kMeanRegionTokens = 2 * kRegionMinTokens;

// The grid with at most `most` regions whose regions are nearest to square; the one with more
// regions, then with fewer columns, where two are equal.
Grid region_grid(Grid cells, int64_t most) {
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

int ceil_div(int value, int by) { return (value + by - 1) / by; }

}  // namespace

std::vector<CellBlock> region_blocks(const CellTree& tree, int budget_tokens) {
  const Grid cells = tree.grid(0);
  const int64_t useful_tokens = std::min<int64_t>(budget_tokens, cells.cells());
  const Grid grid = region_grid(cells, std::max<int64_t>(1, useful_tokens / kMeanRegionTokens));
  int level = 0;  // of the cells that borders lie on
  while (int64_t{ceil_div(tree.grid(level).rows, grid.rows)} *
             ceil_div(tree.grid(level).cols, grid.cols) >
         kRegionMinTokens)
    ++level;
  const Grid coarse = tree.grid(level);
  FOVEA_CHECK(coarse.rows >= grid.rows && coarse.cols >= grid.cols);
  const auto border = [level](int64_t index, int parts, int coarse_size, int size) {
    return static_cast<int>(std::min<int64_t>(index * coarse_size / parts << level, size));
  };
  std::vector<CellBlock> blocks;
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col)
      blocks.push_back({border(row, grid.rows, coarse.rows, cells.rows),
                        border(row + 1, grid.rows, coarse.rows, cells.rows),
                        border(col, grid.cols, coarse.cols, cells.cols),
                        border(col + 1, grid.cols, coarse.cols, cells.cols)});
  return blocks;
}

std::vector<double> softmax_weights(std::span<const double> relevance, double temperature) {
  constexpr double kLeast = -60;  // e^-60 still tells regions apart and never becomes zero
  const double highest = *std::max_element(relevance.begin(), relevance.end());
  std::vector<double> weights;
  for (const double value : relevance) {
    // e^x = (e^(x / 2^12))^(2^12); the series ends at y^5/120, as |y| < 0.015 makes the next term
    // 1e-14.
    const double y = std::max((value - highest) / temperature, kLeast) / 4096;
    double power = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5))));
    for (int i = 0; i < 12; ++i) power *= power;
    weights.push_back(power);
  }
  return weights;
}

TokenLimits token_limits(std::span<const CellBlock> regions, int budget_tokens) {
  TokenLimits limits;
  int64_t most = 0;
  int64_t cells = 0;
  for (const CellBlock& region : regions) {
    const auto least = std::min<int64_t>({kRegionMinTokens, region.cells(), budget_tokens});
    limits.bounds.push_back({least, std::min<int64_t>(kRegionMaxTokens, region.cells())});
    most += limits.bounds.back().most;
    cells += region.cells();
  }
  limits.total = std::min<int64_t>(budget_tokens, cells);
  // The budget comes before the upper bound, should small regions leave too much for the others.
  if (most < limits.total)
    for (size_t i = 0; i < regions.size(); ++i) limits.bounds[i].most = regions[i].cells();
  return limits;
}

std::vector<int64_t> share_tokens(std::span<const double> weights,
                                  std::span<const TokenBounds> bounds, int64_t total) {
  struct Claim {
    double share;
    size_t region;
    bool operator<(const Claim& other) const {
      return share != other.share ? share < other.share : region > other.region;
    }
  };
  std::vector<int64_t> tokens;
  std::priority_queue<Claim> claims;
  const auto claim = [&](size_t i) {
    if (tokens[i] < bounds[i].most)
      claims.push({weights[i] / static_cast<double>(tokens[i] + 1), i});
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    tokens.push_back(bounds[i].least);
    total -= bounds[i].least;
    claim(i);
  }
  FOVEA_CHECK(total >= 0);
  for (; total > 0; --total) {
    FOVEA_CHECK(!claims.empty());
    const size_t best = claims.top().region;
    claims.pop();
    ++tokens[best];
    claim(best);
  }
  return tokens;
}

}  // namespace fovea
