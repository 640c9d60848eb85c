// SPDX-License-Identifier: Apache-2.0
// Halves a block of interleaved 8-bit RGB, all its levels in one go. One call owns one block of the
// finest level and what it becomes on every coarser one; halve_row_inl.h is the arithmetic.
#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.h"
#include "pyramid/downsample.h"

#define HWY_WANT_AVX3_DL  // its byte shuffle over 64 bytes halves the work
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pyramid/downsample_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "pyramid/halve_row_inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

// What a block is on one level.
struct Part {
  uint8_t* rgb = nullptr;
  int64_t stride_bytes = 0;
  int width_px = 0;
  int rows = 0;

  uint8_t* row(int y) const { return rgb + y * stride_bytes; }
};

Part PartOf(const LevelPixels& pixels, const Block& block, int level) {
  const int round_up = (1 << level) - 1;
  return {pixels.row(block.y_px >> level) + int64_t{3} * (block.x_px >> level), pixels.stride_bytes,
          (block.width_px + round_up) >> level, (block.height_px + round_up) >> level};
}

// The two rows that are needed after row y of level 1, where they lie in memory one after the
// other. One stream of fetches at twice the pace is faster than two streams a row apart.
const uint8_t* RowsAhead(const Part& fine, int y) {
  const bool joined = fine.stride_bytes == int64_t{3} * fine.width_px;
  return joined && 2 * y + 3 < fine.rows ? fine.row(2 * y + 2) : nullptr;
}

void DownsampleBlock(Levels levels, const Block& block) {
  std::array<Part, kMaxLevels> parts;
  for (size_t level = 0; level < levels.size(); ++level)
    parts[level] = PartOf(levels[level], block, static_cast<int>(level));
  for (int y = 0; y < parts[1].rows; ++y) {
    // Row y of level 1, then each coarser row that now has both rows under it.
    int row = y;
    for (size_t level = 1; level < levels.size(); ++level) {
      const Part& fine = parts[level - 1];
      const Part& coarse = parts[level];
      HalveRow(fine.row(2 * row), fine.row(std::min(2 * row + 1, fine.rows - 1)), fine.width_px,
               coarse.row(row), level == 1 ? RowsAhead(fine, y) : nullptr);
      if (row % 2 == 0 && row + 1 < coarse.rows) break;
      row /= 2;
    }
  }
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(DownsampleBlock);

void downsample_block(Levels levels, const Block& block) {
  if (levels.size() < 2) return;
  FOVEA_CHECK(levels.size() <= kMaxLevels);
  const Size size = levels[0].size;
  const int unit = 1 << (levels.size() - 1);
  FOVEA_CHECK(block.x_px >= 0 && block.y_px >= 0 && block.width_px >= 1 && block.height_px >= 1);
  FOVEA_CHECK(block.x_px % unit == 0 && block.y_px % unit == 0);
  const int right = block.x_px + block.width_px;
  const int bottom = block.y_px + block.height_px;
  FOVEA_CHECK(right == size.width_px || (right < size.width_px && right % unit == 0));
  FOVEA_CHECK(bottom == size.height_px || (bottom < size.height_px && bottom % unit == 0));
  HWY_DYNAMIC_DISPATCH(DownsampleBlock)(levels, block);
}

}  // namespace fovea
#endif
