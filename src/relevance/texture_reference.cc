// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "relevance/luma.h"
#include "relevance/texture.h"

namespace fovea {

Plane measure_texture_reference(const LevelView& fine, int factor) {
  const int width = fine.size.width_px;
  const int height = fine.size.height_px;
  const auto luma_at = [&](int x, int y) {
    return int{luma_of(fine.row(std::clamp(y, 0, height - 1)) + 3 * std::clamp(x, 0, width - 1))};
  };
  Plane plane({(width + factor - 1) / factor, (height + factor - 1) / factor});
  for (int row = 0; row < plane.size.height_px; ++row) {
    for (int col = 0; col < plane.size.width_px; ++col) {
      int sum = 0;
      int count = 0;
      for (int y = row * factor; y < std::min((row + 1) * factor, height); ++y) {
        for (int x = col * factor; x < std::min((col + 1) * factor, width); ++x) {
          const int here = luma_at(x, y);
          sum += std::abs(here - luma_at(x - 1, y)) + std::abs(here - luma_at(x + 1, y)) +
                 std::abs(here - luma_at(x, y - 1)) + std::abs(here - luma_at(x, y + 1));
          ++count;
        }
      }
      plane.row(row)[col] = static_cast<uint32_t>(16 * sum / count);
    }
  }
  return plane;
}

}  // namespace fovea
