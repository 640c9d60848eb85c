// SPDX-License-Identifier: Apache-2.0
// The rows of attention (queries and keys alike) in an order by which neighbours in the picture lie
// side by side: blocks of at most 8x8 rows, each of groups of at most 4x4. The rows of a 2x2, which
// are the patches of a cell in a tower, follow each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fovea {

// Where a row stands in the grid of its level.
struct GridPlace {
  int32_t level = 0;
  int32_t x = 0;
  int32_t y = 0;

  bool operator==(const GridPlace&) const = default;
};

struct RowBlocks {
  static constexpr int kBlockSide = 8;
  static constexpr int kGroupSide = 4;
  static constexpr int kMaxBlockRows = kBlockSide * kBlockSide;

  std::vector<int32_t> order;         // order[i]: which of the given rows stands at i
  std::vector<GridPlace> places;      // of the rows, in the new order
  std::vector<int32_t> group_begins;  // [groups + 1]: the first row of each group
  std::vector<int32_t> block_begins;  // [blocks + 1]: the first group of each block

  int64_t rows() const { return static_cast<int64_t>(places.size()); }
  int groups() const { return static_cast<int>(group_begins.size()) - 1; }
  int blocks() const { return static_cast<int>(block_begins.size()) - 1; }
  int32_t first_row(int block) const { return group_begins[block_begins[block]]; }
  int32_t end_row(int block) const { return group_begins[block_begins[block + 1]]; }
};

// Places may come in any order and with gaps; no two are the same.
RowBlocks block_rows(std::span<const GridPlace> places);

}  // namespace fovea
