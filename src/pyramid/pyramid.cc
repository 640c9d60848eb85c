// SPDX-License-Identifier: Apache-2.0
#include "pyramid/pyramid.h"

#include <algorithm>
#include <utility>

namespace fovea {

Pyramid build_pyramid(Threads& threads, Image image) {
  Pyramid pyramid;
  pyramid.level0_ = std::move(image);
  const int levels = level_count(pyramid.level0_.size);
  std::vector<Size> sizes{pyramid.level0_.size};
  size_t bytes = 0;
  for (int l = 1; l < levels; ++l) {
    sizes.push_back({(sizes.back().width_px + 1) / 2, (sizes.back().height_px + 1) / 2});
    bytes += static_cast<size_t>(sizes.back().pixels()) * 3;
  }
  pyramid.coarse_ = std::make_unique<uint8_t[]>(std::max<size_t>(bytes, 1));
  pyramid.views_.push_back({pyramid.level0_.rgb.data(), sizes[0], int64_t{sizes[0].width_px} * 3});
  uint8_t* to = pyramid.coarse_.get();
  for (int l = 1; l < levels; ++l) {
    const LevelView from = pyramid.views_.back();
    const Size size = sizes[static_cast<size_t>(l)];
    threads.for_each(size.height_px, 16, [&](int64_t begin, int64_t end) {
      for (int y = static_cast<int>(begin); y < end; ++y) {
        const uint8_t* upper = from.row(2 * y);
        const uint8_t* lower = from.row(std::min(2 * y + 1, from.size.height_px - 1));
        uint8_t* out = to + int64_t{y} * size.width_px * 3;
        for (int x = 0; x < size.width_px; ++x) {
          const int left = 2 * x * 3;
          const int right = std::min(2 * x + 1, from.size.width_px - 1) * 3;
          for (int c = 0; c < 3; ++c)
            out[3 * x + c] = static_cast<uint8_t>(
                (upper[left + c] + upper[right + c] + lower[left + c] + lower[right + c] + 2) >> 2);
        }
      }
    });
    pyramid.views_.push_back({to, size, int64_t{size.width_px} * 3});
    to += size.pixels() * 3;
  }
  return pyramid;
}

}  // namespace fovea
