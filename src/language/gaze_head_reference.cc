// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "language/gaze_head.h"

namespace fovea {

GazeShares gaze_shares_reference(const GazeConfig& config, std::span<const float> queries,
                                 std::span<const float> keys, Size canvas, int level) {
  const Grid glance = grid_at(canvas, level);
  const auto size = static_cast<size_t>(config.size);
  const double place_px = static_cast<double>(kCellPx << level) / config.grid;
  GazeShares shares;
  std::vector<double> logits;
  for (int row = 0; row < glance.rows * config.grid; ++row) {
    if (row * place_px >= canvas.height_px) break;
    shares.grid = {row + 1, 0};
    for (int col = 0; col < glance.cols * config.grid; ++col) {
      if (col * place_px >= canvas.width_px) break;
      shares.grid.cols = col + 1;
      const int token = row / config.grid * glance.cols + col / config.grid;
      const int place = row % config.grid * config.grid + col % config.grid;
      const float* key = &keys[(static_cast<size_t>(token) * config.places() + place) * size];
      double most = -HUGE_VAL;
      std::vector<double> terms;
      for (size_t i = 0; i < queries.size() / size; ++i) {
        double dot = 0;
        for (size_t d = 0; d < size; ++d) dot += double{queries[i * size + d]} * double{key[d]};
        terms.push_back(dot / std::sqrt(static_cast<double>(size)));
        most = std::max(most, terms.back());
      }
      double sum = 0;
      for (const double term : terms) sum += std::exp(term - most);
      logits.push_back(most + std::log(sum));
    }
  }
  double most = -HUGE_VAL;
  for (const double logit : logits) most = std::max(most, logit);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - most);
  for (const double logit : logits)
    shares.share.push_back(static_cast<float>(std::exp(logit - most) / sum));
  return shares;
}

}  // namespace fovea
