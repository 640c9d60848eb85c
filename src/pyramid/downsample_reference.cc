// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "pyramid/downsample.h"

namespace fovea {

// coarse[y][x][c] = (fine[2y][2x][c] + fine[2y][2x+1][c] + fine[2y+1][2x][c] + fine[2y+1][2x+1][c]
//                    + 2) >> 2, where indices beyond the last row or column mean the last one.
void downsample_reference(Levels levels) {
  for (size_t level = 1; level < levels.size(); ++level) {
    const LevelPixels& fine = levels[level - 1];
    const LevelPixels& coarse = levels[level];
    for (int y = 0; y < coarse.size.height_px; ++y) {
      const uint8_t* top = fine.row(2 * y);
      const uint8_t* bottom = fine.row(std::min(2 * y + 1, fine.size.height_px - 1));
      for (int x = 0; x < coarse.size.width_px; ++x) {
        const int left = 2 * x * 3;
        const int right = std::min(2 * x + 1, fine.size.width_px - 1) * 3;
        for (int c = 0; c < 3; ++c) {
          const int sum = top[left + c] + top[right + c] + bottom[left + c] + bottom[right + c];
          coarse.row(y)[3 * x + c] = static_cast<uint8_t>((sum + 2) >> 2);
        }
      }
    }
  }
}

}  // namespace fovea
