// SPDX-License-Identifier: Apache-2.0
// Where the rows of one block lie while it is swept; the arithmetic is downsample_cpu.cc's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "base/check.h"
#include "pyramid/downsample.h"

namespace fovea {

class BlockSweep {
 public:
  // The block's share of one level.
  struct Part {
    uint8_t* rgb = nullptr;
    int64_t stride_bytes = 0;
    int width_px = 0;
    int rows = 0;
  };

  BlockSweep(Levels levels, const Block& block, Store store) {
    for (int level = 0; level < static_cast<int>(levels.size()); ++level) {
      const LevelPixels& pixels = levels[static_cast<size_t>(level)];
      const int round_up = (1 << level) - 1;
      parts_[static_cast<size_t>(level)] = {
          pixels.row(block.y_px >> level) + int64_t{3} * (block.x_px >> level), pixels.stride_bytes,
          (block.width_px + round_up) >> level, (block.height_px + round_up) >> level};
    }
    row_bytes_ = int64_t{3} * part(0).width_px;
    if (store == Store::kStream) {
      stream_bytes_ = int64_t{3} * part(1).width_px;
      stream_rows_ =
          std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(2 * stream_bytes_));
    }
    touch_rows(0, kRowsAhead);
  }

  const Part& part(int level) const { return parts_[static_cast<size_t>(level)]; }

  // The two rows of the finer level that row `row` of `level` is made from, and where it goes.
  const uint8_t* top(int level, int row) const { return place(level - 1, 2 * row); }
  const uint8_t* bottom(int level, int row) const {
    return place(level - 1, std::min(2 * row + 1, part(level - 1).rows - 1));
  }
  uint8_t* out(int level, int row) const { return place(level, row); }

  // Where a row of level 1 that was made in the stream buffer belongs.
  uint8_t* home(int row) const { return part(1).rgb + row * part(1).stride_bytes; }

  // The memory that is needed after row `row` of level 1, where both rows of it lie one after the
  // other. One stream of touches at twice the pace is faster than two streams a row apart.
  const uint8_t* ahead(int row) const {
    const bool joined = part(0).stride_bytes == row_bytes_;
    const bool there = 2 * row + 3 < part(0).rows;
    return joined && there && !narrow() ? place(0, 2 * row + 2) : nullptr;
  }

  // Rows of a narrow block are too short for the processor to foresee: touches those that are
  // needed a few rows later.
  void touch_ahead(int row) const { touch_rows(2 * row + kRowsAhead, 2); }

 private:
  static constexpr int kRowsAhead = 8;
  static constexpr int kNarrowBytes = 1024;

  bool narrow() const { return row_bytes_ <= kNarrowBytes; }

  void touch_rows(int first, int count) const {
    if (!narrow()) return;
    for (int row = first; row < std::min(first + count, part(0).rows); ++row)
      for (int64_t byte = 0; byte < row_bytes_; byte += kCacheLineBytes)
        __builtin_prefetch(place(0, row) + byte, 0, 3);
  }

  uint8_t* place(int level, int row) const {
    if (level == 1 && stream_rows_) return stream_rows_.get() + (row & 1) * stream_bytes_;
    return part(level).rgb + row * part(level).stride_bytes;
  }

  std::array<Part, kMaxLevels> parts_;
  std::unique_ptr<uint8_t[]> stream_rows_;  // two rows of level 1 on their way to memory
  int64_t stream_bytes_ = 0;
  int64_t row_bytes_ = 0;
};

}  // namespace fovea
