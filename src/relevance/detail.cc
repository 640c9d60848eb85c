// SPDX-License-Identifier: Apache-2.0
#include "relevance/detail.h"

#include <array>

#include "base/check.h"
#include "relevance/detail_cpu.h"

namespace fovea {
namespace {

constexpr int kBlockCells = 8;

// Some cells of one row of one level: what a thread works on at a time.
struct Block {
  int level;
  int row;
  int first_col;
  int last_col;  // not included
};

std::vector<Block> list_blocks(const Detail& detail) {
  std::vector<Block> blocks;
  for (size_t k = 1; k < detail.grid.size(); ++k)
    for (int row = 0; row < detail.grid[k].rows; ++row)
      for (int col = 0; col < detail.grid[k].cols; col += kBlockCells)
        blocks.push_back(
            {static_cast<int>(k), row, col, std::min(col + kBlockCells, detail.grid[k].cols)});
  return blocks;
}

// e(P) summed over the parents P of each cell of the block.
void measure_block(const Pyramid& pyramid, const Block& block, Detail& detail) {
  const LevelView children = pyramid.level(block.level - 1);
  const LevelView parents = pyramid.level(block.level);
  const Size canvas = pyramid.canvas();
  const int finer = block.level - 1;
  const int last_x = children.size.width_px - 1;
  const uint64_t full_px = uint64_t{1} << finer;
  const uint64_t missing_px = full_px - covered_px(last_x, finer, canvas.width_px);
  const int first_y = block.row * 2 * kCellPx;
  const int end_y = std::min(first_y + 2 * kCellPx, children.size.height_px);
  std::array<uint64_t, kBlockCells> sums{};
  for (int y = first_y; y < end_y; ++y) {
    const uint64_t height_px = covered_px(y, finer, canvas.height_px);
    for (int col = block.first_col; col < block.last_col; ++col) {
      const int x = col * 2 * kCellPx;
      const int count = std::min(2 * kCellPx, children.size.width_px - x);
      const uint8_t* child = children.row(y) + static_cast<ptrdiff_t>(3) * x;
      const uint8_t* parent = parents.row(y / 2) + static_cast<ptrdiff_t>(3) * (x / 2);
      uint64_t energy = lost_in_row(child, parent, count) * full_px;
      if (missing_px > 0 && x + count > last_x) {
        const ptrdiff_t edge = count - 1;
        energy -= lost_in_row(child + 3 * edge, parent + 3 * (edge / 2), 1) * missing_px;
      }
      sums[static_cast<size_t>(col - block.first_col)] += energy * height_px;
    }
  }
  const auto k = static_cast<size_t>(block.level);
  uint64_t* out = detail.lost[k].data() + static_cast<ptrdiff_t>(block.row) * detail.grid[k].cols;
  for (int col = block.first_col; col < block.last_col; ++col)
    out[col] = sums[static_cast<size_t>(col - block.first_col)];
}

}  // namespace

Detail measure_detail(Threads& threads, const Pyramid& pyramid) {
  FOVEA_CHECK(pyramid.levels() >= 1);
  Detail detail;
  for (int level = 0; level < pyramid.levels(); ++level) {
    detail.grid.push_back(grid_at(pyramid.canvas(), level));
    detail.lost.emplace_back(static_cast<size_t>(detail.grid.back().cells()));
  }
  const std::vector<Block> blocks = list_blocks(detail);
  threads.for_each(static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      measure_block(pyramid, blocks[static_cast<size_t>(i)], detail);
  });
  // What a finer level lost stays lost.
  for (size_t k = 1; k < detail.grid.size(); ++k) {
    const Grid finer = detail.grid[k - 1];
    for (int row = 0; row < finer.rows; ++row)
      for (int col = 0; col < finer.cols; ++col)
        detail.lost[k][static_cast<size_t>(row / 2) * detail.grid[k].cols + col / 2] +=
            detail.at({static_cast<int>(k) - 1, row, col});
  }
  return detail;
}

}  // namespace fovea
