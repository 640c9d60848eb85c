// SPDX-License-Identifier: Apache-2.0
#include "gaze/regions.h"

namespace fovea {

// Hands out one token at a time and looks at every region for each.
std::vector<int64_t> share_tokens_reference(std::span<const double> weights,
                                            std::span<const TokenBounds> bounds, int64_t total) {
  std::vector<int64_t> tokens;
  for (const TokenBounds& bound : bounds) {
    tokens.push_back(bound.least);
    total -= bound.least;
  }
  while (total-- > 0) {
    size_t best = tokens.size();
    double best_share = -1;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const double share = weights[i] / static_cast<double>(tokens[i] + 1);
      if (tokens[i] == bounds[i].most || share <= best_share) continue;
      best = i;
      best_share = share;
    }
    ++tokens[best];
  }
  return tokens;
}

}  // namespace fovea
