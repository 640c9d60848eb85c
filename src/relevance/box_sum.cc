// SPDX-License-Identifier: Apache-2.0
#include "relevance/box_sum.h"

#include "base/check.h"

namespace fovea {
namespace {

// out[x] = the sum of rows[i][x] over the 2 kRadius + 1 rows.
template <int kRadius>
void sum_rows(const std::array<const uint32_t*, 2 * kRadius + 1>& rows, int width, uint32_t* out) {
  for (int x = 0; x < width; ++x) {
    uint32_t sum = rows[0][x];
    for (size_t i = 1; i < rows.size(); ++i) sum += rows[i][x];
    out[x] = sum;
  }
}

// Rows first, then columns: sums along one axis do not care about those along the other.
template <int kRadius>
Plane sum_boxes(const Plane& plane, int times) {
  const int width = plane.size.width_px;
  const int height = plane.size.height_px;
  std::array<const uint32_t*, 2 * kRadius + 1> rows{};
  Plane sums = plane;
  std::vector<uint32_t> padded(static_cast<size_t>(width) + 2 * kRadius);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = padded.data() + i;
  for (int y = 0; y < height; ++y) {
    for (int time = 0; time < times; ++time) {
      uint32_t* row = sums.row(y);
      std::fill_n(padded.begin(), kRadius, row[0]);
      std::copy_n(row, width, padded.begin() + kRadius);
      std::fill_n(padded.begin() + kRadius + width, kRadius, row[width - 1]);
      sum_rows<kRadius>(rows, width, row);
    }
  }
  Plane before(plane.size);
  for (int time = 0; time < times; ++time) {
    std::swap(before, sums);
    for (int y = 0; y < height; ++y) {
      for (int i = -kRadius; i <= kRadius; ++i)
        rows[static_cast<size_t>(i + kRadius)] = before.row(std::clamp(y + i, 0, height - 1));
      sum_rows<kRadius>(rows, width, sums.row(y));
    }
  }
  return sums;
}

}  // namespace

Plane box_sum(const Plane& plane, int radius, int times) {
  FOVEA_CHECK(radius == 1 || radius == 2);
  FOVEA_CHECK(plane.size.pixels() > 0);
  return radius == 1 ? sum_boxes<1>(plane, times) : sum_boxes<2>(plane, times);
}

}  // namespace fovea
