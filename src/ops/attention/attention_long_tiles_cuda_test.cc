// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_long_tiles_cuda.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fovea {
namespace {

struct Size {
  int queries;
  int keys;
};

LongPlan plan_of(const std::vector<Size>& sizes, int heads, int groups, int blocks, bool causal) {
  LongPlan plan{};
  plan.heads = heads;
  int row = 3;  // rows of others come first
  for (const Size& size : sizes) {
    LongSequence& sequence = plan.sequences[plan.count++];
    sequence.q_begin = row;
    sequence.queries = size.queries;
    sequence.keys = size.keys;
    sequence.first_query = causal ? std::max(0, size.keys - size.queries) : size.keys;
    row += size.queries;
  }
  choose_long_plan(plan, groups, blocks, causal, 512);
  return plan;
}

// Every row of every head is in one tile, whose keys are those that its last row sees.
template <int kGroups>
void expect_whole(const std::vector<Size>& sizes, int heads, int blocks, bool causal) {
  const LongPlan plan = plan_of(sizes, heads, kGroups, blocks, causal);
  const std::string name = std::to_string(sizes.size()) + " sequences, the first of " +
                           std::to_string(sizes[0].queries) + " queries, " + std::to_string(heads) +
                           " heads, " + std::to_string(kGroups) + " warpgroups, " +
                           (causal ? "causal" : "not causal");
  std::vector<std::vector<int>> seen;
  seen.reserve(sizes.size());
  for (const Size& size : sizes)
    seen.emplace_back(static_cast<size_t>(size.queries) * static_cast<size_t>(heads));
  for (int index = 0; index < plan.tiles; ++index) {
    const LongTile tile = long_tile<kGroups>(plan, index);
    ASSERT_LT(tile.sequence, plan.count) << name;
    const LongSequence& sequence = plan.sequences[tile.sequence];
    ASSERT_GE(tile.groups, 1) << name << ", tile " << index;
    ASSERT_LE(tile.groups, kGroups) << name << ", tile " << index;
    ASSERT_LT(tile.row, sequence.queries) << name << ", tile " << index;
    const int end = std::min(sequence.queries, tile.row + tile.groups * kLongRows);
    for (int row = tile.row; row < end; ++row)
      ++seen[static_cast<size_t>(tile.sequence)][static_cast<size_t>(row * heads + tile.head)];
    const int wanted = causal ? std::min(sequence.keys, sequence.first_query + end) : sequence.keys;
    ASSERT_EQ(tile.keys, wanted) << name << ", tile " << index;
  }
  for (const auto& rows : seen)
    for (const int times : rows) ASSERT_EQ(times, 1) << name;
}

TEST(AttentionLongTiles, HoldEveryRowOnce) {
  const std::vector<std::vector<Size>> all = {{{1, 1}},
                                              {{64, 64}},
                                              {{65, 70}},
                                              {{128, 128}},
                                              {{193, 1000}},
                                              {{1056, 1056}},
                                              {{4096, 4096}},
                                              {{700, 300000}},
                                              {{1, 5}, {300, 300}, {64, 900}},
                                              {{4096, 4096}, {1, 4096}, {129, 129}, {2, 2}}};
  for (const auto& sizes : all)
    for (const int heads : {1, 6, 16})
      for (const int blocks : {1, 4, 132})
        for (const bool causal : {false, true}) {
          expect_whole<2>(sizes, heads, blocks, causal);
          expect_whole<3>(sizes, heads, blocks, causal);
        }
}

// Blocks take the longest first, so that they end at about the same time.
TEST(AttentionLongTiles, ThatSeeMostKeysComeFirst) {
  const LongPlan plan = plan_of({{1056, 1056}}, 16, 2, 132, true);
  ASSERT_EQ(plan.order, LongOrder::kMostKeys);
  int before = 1056;
  for (int index = 0; index < plan.tiles; ++index) {
    const int keys = long_tile<2>(plan, index).keys;
    ASSERT_LE(keys, before) << "tile " << index;
    before = keys;
  }
}

// Where keys are more than the cache holds, few heads are at work at a time.
TEST(AttentionLongTiles, OfManyKeysGoHeadByHead) {
  const LongPlan plan = plan_of({{4096, 500000}}, 16, 2, 132, true);
  ASSERT_EQ(plan.order, LongOrder::kEachHeads);
  int before = 0;
  for (int index = 0; index < plan.tiles; ++index) {
    const int head = long_tile<2>(plan, index).head;
    ASSERT_GE(head, before) << "tile " << index;
    before = head;
  }
}

}  // namespace
}  // namespace fovea
