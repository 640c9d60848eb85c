// SPDX-License-Identifier: Apache-2.0
#include "relevance/texture.h"

#include "base/check.h"
#include "relevance/luma.h"
#include "relevance/texture_cpu.h"

namespace fovea {
namespace {

constexpr int64_t kChunkRows = 8;  // of the plane; a chunk computes two rows of lightness twice

// Adds up `factor` neighbours and rounds the mean down.
void store_row(const uint16_t* sums, int width, int factor, int rows, uint32_t* out) {
  const int whole = width / factor;
  const auto full = static_cast<uint32_t>(factor * rows);
  if (factor == 4 && rows == 4) {
    for (int col = 0; col < whole; ++col, sums += 4)
      out[col] = static_cast<uint32_t>(sums[0] + sums[1] + sums[2] + sums[3]);
  } else {
    for (int col = 0; col < whole; ++col) {
      uint32_t sum = 0;
      for (int i = 0; i < factor; ++i) sum += *sums++;
      out[col] = 16 * sum / full;
    }
  }
  if (width % factor != 0) {
    uint32_t sum = 0;
    for (int i = 0; i < width % factor; ++i) sum += *sums++;
    out[whole] = 16 * sum / static_cast<uint32_t>(width % factor * rows);
  }
}

}  // namespace

Plane measure_texture(Threads& threads, const LevelView& fine, int factor) {
  FOVEA_CHECK(factor == 1 || factor == 2 || factor == 4);
  const int width = fine.size.width_px;
  const int height = fine.size.height_px;
  FOVEA_CHECK(width > 0 && height > 0);
  Plane plane({(width + factor - 1) / factor, (height + factor - 1) / factor});
  threads.for_each(plane.size.height_px, kChunkRows, [&](int64_t begin, int64_t end) {
    // Lightness of the chunk's rows and of one above and below, with a pixel more on either side.
    const int first = static_cast<int>(begin) * factor;
    const int last = std::min(static_cast<int>(end) * factor, height);
    const size_t stride = static_cast<size_t>(width) + 2;
    std::vector<uint8_t> luma(stride * static_cast<size_t>(last - first + 2));
    const auto luma_at = [&](int y) {
      return luma.data() + static_cast<size_t>(y - first + 1) * stride + 1;
    };
    for (int y = first - 1; y <= last; ++y) {
      uint8_t* row = luma_at(y);
      luma_row(fine.row(std::clamp(y, 0, height - 1)), width, row);
      row[-1] = row[0];
      row[width] = row[width - 1];
    }
    std::vector<uint16_t> sums(static_cast<size_t>(width));
    for (auto row = static_cast<int>(begin); row < static_cast<int>(end); ++row) {
      std::fill(sums.begin(), sums.end(), uint16_t{0});
      const int rows = std::min(factor, height - row * factor);
      for (int y = row * factor; y < row * factor + rows; ++y)
        add_steps(luma_at(y - 1), luma_at(y), luma_at(y + 1), width, sums.data());
      store_row(sums.data(), width, factor, rows, plane.row(row));
    }
  });
  return plane;
}

}  // namespace fovea
