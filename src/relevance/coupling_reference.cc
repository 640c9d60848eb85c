// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "relevance/coupling.h"
#include "relevance/coupling_span.h"

namespace fovea {

Map couple_map_reference(const Map& given, Size canvas, int level) {
  Map map(grid_at(canvas, level));
  for (int row = 0; row < map.grid.rows; ++row) {
    for (int col = 0; col < map.grid.cols; ++col) {
      const PxSpan y = level_span(row, level, canvas.height_px);
      const PxSpan x = level_span(col, level, canvas.width_px);
      double sum = 0;
      double weight = 0;
      for (int r = 0; r < given.grid.rows; ++r) {
        for (int c = 0; c < given.grid.cols; ++c) {
          const double shared_px = shared(y, given_row_span(given.grid, r, canvas)) *
                                   shared(x, given_col_span(given.grid, c, canvas));
          sum += shared_px * given.at(r, c);
          weight += shared_px;
        }
      }
      map.at(row, col) = static_cast<uint16_t>(std::min(65535.0, sum / weight + 0.5));
    }
  }
  return map;
}

Map couple_features_reference(std::span<const float> features, std::span<const float> query,
                              Grid grid) {
  Map map(grid);
  for (size_t cell = 0; cell < map.score.size(); ++cell) {
    double dot = 0;
    double feature_square = 0;
    double query_square = 0;
    for (size_t i = 0; i < query.size(); ++i) {
      const double f = features[cell * query.size() + i];
      const double q = query[i];
      dot += f * q;
      feature_square += f * f;
      query_square += q * q;
    }
    const double cosine = dot / (std::sqrt(feature_square) * std::sqrt(query_square));
    if (cosine > 0) map.score[cell] = static_cast<uint16_t>(std::min(1.0, cosine) * 65535 + 0.5);
  }
  return map;
}

}  // namespace fovea
