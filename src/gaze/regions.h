// SPDX-License-Identifier: Apache-2.0
// The regions of the proportional plan, and how many tokens each gets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gaze/cell_tree.h"
#include "gaze/gaze.h"

namespace fovea {

// A region read at one level has 8x8, 12x12, 16x16 or 20x20 cells for 64, 144, 256 or 400 tokens.
inline constexpr int kRegionMinTokens = 64;
inline constexpr int kRegionMaxTokens = 400;

// The canvas as a grid of at most budget/64 regions, nearly square, in row-major order; one region
// for a budget under 64. Borders lie on cells coarse enough that each region is at most 64 of them.
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
