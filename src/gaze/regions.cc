// SPDX-License-Identifier: Apache-2.0
#include "gaze/regions.h"

#include <algorithm>
#include <queue>

#include "base/check.h"

namespace fovea {

std::vector<CellBlock> region_blocks(const CellTree& tree, int budget_tokens) {
  const RegionLayout layout = region_layout(tree.grid(0), budget_tokens);
  FOVEA_CHECK(layout.coarse.rows >= layout.regions.rows &&
              layout.coarse.cols >= layout.regions.cols);
  std::vector<CellBlock> blocks;
  blocks.reserve(static_cast<size_t>(layout.regions.cells()));
  for (int i = 0; i < layout.regions.cells(); ++i) blocks.push_back(layout.block(i));
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
