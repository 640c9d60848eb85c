// SPDX-License-Identifier: Apache-2.0
#include "pyramid/pyramid.h"

namespace fovea {

Pyramid build_pyramid(Threads&, Image image) {
  Pyramid pyramid;
  const Size canvas = image.size;
  const int levels = level_count(canvas);
  std::vector<Size> sizes(static_cast<size_t>(levels), canvas);
  size_t coarse_bytes = 0;
  for (size_t l = 1; l < sizes.size(); ++l) {
    sizes[l] = {(sizes[l - 1].width_px + 1) / 2, (sizes[l - 1].height_px + 1) / 2};
    coarse_bytes += static_cast<size_t>(sizes[l].pixels()) * 3;
  }
  pyramid.level0_ = std::move(image);
  pyramid.coarse_ = std::make_unique<uint8_t[]>(coarse_bytes);
  pyramid.views_.push_back({pyramid.level0_.rgb.data(), canvas, int64_t{canvas.width_px} * 3});
  uint8_t* out = pyramid.coarse_.get();
  for (size_t l = 1; l < sizes.size(); ++l) {
    const LevelView fine = pyramid.views_.back();
    const int64_t stride_bytes = int64_t{sizes[l].width_px} * 3;
    pyramid.views_.push_back({out, sizes[l], stride_bytes});
    for (int y = 0; y < sizes[l].height_px; ++y) {
      const uint8_t* upper = fine.row(2 * y);
      const uint8_t* lower = fine.row(std::min(2 * y + 1, fine.size.height_px - 1));
      for (int x = 0; x < sizes[l].width_px; ++x) {
        const int left = 2 * x * 3;
        const int right = std::min(2 * x + 1, fine.size.width_px - 1) * 3;
        for (int c = 0; c < 3; ++c)
          *out++ = static_cast<uint8_t>(
              (upper[left + c] + upper[right + c] + lower[left + c] + lower[right + c] + 2) >> 2);
      }
    }
  }
  return pyramid;
}

}  // namespace fovea
