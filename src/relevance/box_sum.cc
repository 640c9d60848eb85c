// SPDX-License-Identifier: Apache-2.0
#include "relevance/box_sum.h"

namespace fovea {
namespace {

// Rows first, then columns: sums along one axis do not care about those along the other.
void sum_along_row(uint32_t* row, int width, int radius, int times, std::vector<uint32_t>& padded) {
  for (int time = 0; time < times; ++time) {
    std::fill_n(padded.begin(), radius, row[0]);
    std::copy_n(row, width, padded.begin() + radius);
    std::fill_n(padded.begin() + radius + width, radius, row[width - 1]);
    std::copy_n(padded.begin(), width, row);
    for (int i = 1; i <= 2 * radius; ++i) {
      const uint32_t* shifted = padded.data() + i;
      for (int x = 0; x < width; ++x) row[x] += shifted[x];
    }
  }
}

}  // namespace

Plane box_sum(const Plane& plane, int radius, int times) {
  const int width = plane.size.width_px;
  const int height = plane.size.height_px;
  Plane sums = plane;
  std::vector<uint32_t> padded(static_cast<size_t>(width) + 2 * static_cast<size_t>(radius));
  for (int y = 0; y < height; ++y) sum_along_row(sums.row(y), width, radius, times, padded);
  for (int time = 0; time < times; ++time) {
    const Plane before = sums;
    for (int y = 0; y < height; ++y) {
      uint32_t* out = sums.row(y);
      std::fill_n(out, width, 0U);
      for (int v = y - radius; v <= y + radius; ++v) {
        const uint32_t* in = before.row(std::clamp(v, 0, height - 1));
        for (int x = 0; x < width; ++x) out[x] += in[x];
      }
    }
  }
  return sums;
}

}  // namespace fovea
