// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/row_blocks.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace fovea {
namespace {

// What orders rows: level, then block, group, 2x2 and row, each from the top left.
auto key_of(const GridPlace& place) {
  constexpr int kBlock = RowBlocks::kBlockSide;
  constexpr int kGroup = RowBlocks::kGroupSide;
  return std::make_tuple(place.level, place.y / kBlock, place.x / kBlock, place.y / kGroup,
                         place.x / kGroup, place.y / 2, place.x / 2, place.y, place.x);
}

bool same_block(const GridPlace& a, const GridPlace& b) {
  constexpr int kBlock = RowBlocks::kBlockSide;
  return a.level == b.level && a.y / kBlock == b.y / kBlock && a.x / kBlock == b.x / kBlock;
}

bool same_group(const GridPlace& a, const GridPlace& b) {
  constexpr int kGroup = RowBlocks::kGroupSide;
  return a.level == b.level && a.y / kGroup == b.y / kGroup && a.x / kGroup == b.x / kGroup;
}

}  // namespace

RowBlocks block_rows(std::span<const GridPlace> places) {
  for (const GridPlace& place : places)
    FOVEA_CHECK(place.level >= 0 && place.x >= 0 && place.y >= 0);
  RowBlocks rows;
  rows.order.resize(places.size());
  std::iota(rows.order.begin(), rows.order.end(), 0);
  std::sort(rows.order.begin(), rows.order.end(),
            [&](int32_t a, int32_t b) { return key_of(places[a]) < key_of(places[b]); });
  rows.places.reserve(places.size());
  for (const int32_t row : rows.order) rows.places.push_back(places[row]);
  for (int32_t i = 0; i < static_cast<int32_t>(rows.places.size()); ++i) {
    const bool first = i == 0;
    FOVEA_CHECK(first || rows.places[i] != rows.places[i - 1]);
    if (first || !same_block(rows.places[i], rows.places[i - 1]))
      rows.block_begins.push_back(static_cast<int32_t>(rows.group_begins.size()));
    if (first || !same_group(rows.places[i], rows.places[i - 1])) rows.group_begins.push_back(i);
  }
  rows.block_begins.push_back(static_cast<int32_t>(rows.group_begins.size()));
  rows.group_begins.push_back(static_cast<int32_t>(rows.places.size()));
  return rows;
}

}  // namespace fovea
