// SPDX-License-Identifier: Apache-2.0
#include "vision/row_order.h"

#include <gtest/gtest.h>

#include "vision/test_towers.h"
#include "vision/vision.h"

namespace fovea {
namespace {

using test::parts_of;
using test::range;
using test::take_cells;

constexpr Size kCanvas{672, 480};  // 21 x 15 cells
constexpr SparseSettings kAllBlocks{AttentionKind::kHierarchical, 1};
// f32 sums in another order.
constexpr double kSumOrder = 2e-5;

// Every level-0 cell over a level-2 cover.
std::vector<Cell> two_levels() {
  std::vector<Cell> cells = test::cover(kCanvas, 2);
  for (const Cell& cell : test::cover(kCanvas, 0)) cells.push_back(cell);
  return cells;
}

TEST(RowOrder, UnsortsWhatItSorts) {
  const Patches patches = test::random_patches(two_levels(), kCanvas);
  const RowOrder order(kAllBlocks, patches.places);
  EXPECT_EQ(order.rows()->rows(), patches.count);
  std::vector<float> x;
  for (int i = 0; i < patches.count; ++i) x.insert(x.end(), {static_cast<float>(i), 0.5f});
  const std::vector<float> before = x;
  order.sort(x.data(), 2);
  EXPECT_NE(x, before);
  std::vector<float> cells;
  for (int i = 0; i < patches.count; ++i) {
    const auto row = static_cast<size_t>(x[static_cast<size_t>(2 * i)]);
    EXPECT_EQ(order.places()[static_cast<size_t>(i)], patches.places[row]);
    if (i % kPatchesPerCell == 0) cells.push_back(static_cast<float>(row / kPatchesPerCell));
    EXPECT_EQ(row % kPatchesPerCell, static_cast<size_t>(i % kPatchesPerCell));
  }
  order.unsort_patches(x.data(), 2);
  EXPECT_EQ(x, before);
  order.unsort_cells(cells.data(), 1);
  for (size_t i = 0; i < cells.size(); ++i) EXPECT_EQ(cells[i], static_cast<float>(i));
}

TEST(RowOrder, IsAsGivenWhereAttentionIsDense) {
  const Patches patches = test::random_patches(two_levels(), kCanvas);
  const RowOrder order({}, patches.places);
  EXPECT_TRUE(order.is_as_given());
  EXPECT_EQ(order.rows(), nullptr);
  EXPECT_EQ(&order.places(), &patches.places);
}

struct SparseTower : testing::Test {
  VisualTokens encode(const Patches& patches, TowerMemory& memory, const EncodeOptions& options) {
    return *tower.encode(threads, patches, kCanvas, memory, options);
  }
  void expect_near(const VisualTokens& tokens, const VisualTokens& expected) {
    ASSERT_EQ(tokens.count, expected.count);
    const auto parts = parts_of(tokens);
    const auto wanted = parts_of(expected);
    ASSERT_EQ(parts.size(), wanted.size());
    for (size_t i = 0; i < parts.size(); ++i)
      EXPECT_LE(test::relative_difference(parts[i], wanted[i], wanted[i].size()), kSumOrder)
          << "part " << i;
  }

  Threads threads{2};
  Tower tower = test::random_tower({.depth = 3, .taps = {0, 2}});
  Patches all = test::random_patches(two_levels(), kCanvas);
};

TEST_F(SparseTower, IsTheDenseOneWhereEveryBlockIsSeen) {
  for (const bool size_bias : {false, true}) {
    std::vector<std::vector<float>> blocks[2];
    VisualTokens tokens[2];
    for (const bool sparse : {false, true}) {
      TowerMemory memory;
      EncodeOptions options{.keep = false, .size_bias = size_bias};
      if (sparse) options.attention = kAllBlocks;
      const auto values = static_cast<size_t>(all.count) * tower.config().hidden_size;
      options.on_block = [&](int, const float* hidden) {
        blocks[sparse ? 1 : 0].emplace_back(hidden, hidden + values);
      };
      tokens[sparse ? 1 : 0] = encode(all, memory, options);
    }
    expect_near(tokens[1], tokens[0]);
    ASSERT_EQ(blocks[1].size(), blocks[0].size());
    for (size_t i = 0; i < blocks[0].size(); ++i)
      EXPECT_LE(test::relative_difference(blocks[1][i], blocks[0][i], blocks[0][i].size()),
                kSumOrder);
  }
}

// A look attends to a glance that was encoded sparsely, its own keys being dense.
TEST_F(SparseTower, LeavesAMemoryThatLooksAttendTo) {
  const int glance_cells = static_cast<int>(test::cover(kCanvas, 2).size());
  const Patches glance = take_cells(all, range(0, glance_cells));
  const Patches look = take_cells(all, range(glance_cells, glance_cells + 40));
  TowerMemory dense;
  TowerMemory sparse;
  const EncodeOptions as_it_is{.size_bias = true};
  const EncodeOptions with_kind{.attention = kAllBlocks, .size_bias = true};
  expect_near(encode(glance, sparse, with_kind), encode(glance, dense, as_it_is));
  expect_near(encode(look, sparse, with_kind), encode(look, dense, as_it_is));
}

TEST_F(SparseTower, EveryKindEncodesAndChangesTheTokens) {
  TowerMemory none;
  const VisualTokens dense = encode(all, none, {.keep = false});
  for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower)) {
    TowerMemory memory;
    const VisualTokens tokens = encode(all, memory, {.keep = false, .attention = {row.kind, 0.1}});
    ASSERT_EQ(tokens.count, dense.count) << row.name;
    const double difference =
        test::relative_difference(parts_of(tokens)[0], parts_of(dense)[0], tokens.features.size());
    if (row.kind == AttentionKind::kDense)
      EXPECT_EQ(difference, 0);
    else
      EXPECT_GT(difference, 1e-4) << row.name;
    EXPECT_LT(difference, 2) << row.name;
  }
}

// A schedule has each block do what it does where all blocks do, on what came before.
TEST_F(SparseTower, ASchedulesBlocksHaveTheirOwnKinds) {
  const auto blocks_of = [&](const AttentionSchedule& attention) {
    std::vector<std::vector<float>> blocks;
    const auto values = static_cast<size_t>(all.count) * tower.config().hidden_size;
    EncodeOptions options{.keep = false, .attention = attention};
    options.on_block = [&](int, const float* hidden) {
      blocks.emplace_back(hidden, hidden + values);
    };
    TowerMemory memory;
    encode(all, memory, options);
    return blocks;
  };
  const SparseSettings local{.kind = AttentionKind::kLocal3};
  const auto dense = blocks_of({});
  const auto sparse = blocks_of(local);
  const auto first = blocks_of(AttentionSchedule({local, {}, {}}));
  const auto last = blocks_of(AttentionSchedule({{}, {}, local}));
  const auto same = [&](const std::vector<float>& a, const std::vector<float>& b) {
    return test::relative_difference(a, b, b.size()) <= kSumOrder;
  };
  EXPECT_TRUE(same(first[0], sparse[0]));
  EXPECT_FALSE(same(first[1], sparse[1])) << "the second block is dense";
  EXPECT_FALSE(same(first[1], dense[1])) << "but of other rows";
  EXPECT_TRUE(same(last[1], dense[1]));
  EXPECT_FALSE(same(last[2], dense[2]));
}

TEST_F(SparseTower, HasTheSameBitsForAnyNumberOfThreads) {
  const AttentionSchedule attention(
      {{AttentionKind::kHierarchical, 0.2}, {}, {AttentionKind::kStrided, 0}});
  std::vector<std::vector<float>> expected;
  for (const int count : {1, 2, 3}) {
    Threads some(count);
    TowerMemory memory;
    const auto parts = parts_of(
        *tower.encode(some, all, kCanvas, memory, {.keep = false, .attention = attention}));
    if (count == 1) expected = parts;
    EXPECT_EQ(parts, expected) << count << " threads";
  }
}

// Every fourth cell of a row, of every fourth row: no two are of one block.
TEST_F(SparseTower, WorksInNoMoreThanItSays) {
  std::vector<GridPlace> scattered;
  for (int i = 0; i < 64; ++i)
    for (int patch = 0; patch < 4; ++patch)
      scattered.push_back({0, i % 8 * 8 + patch % 2, i / 8 * 8 + patch / 2});
  const RowBlocks rows = block_rows(scattered);
  ASSERT_EQ(rows.blocks(), 64);
  const VisionConfig& config = tower.config();
  const size_t dense = tower_work_bytes(config, rows.rows());
  for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower)) {
    const SparseSettings settings{row.kind, row.by_blocks ? 0.5 : 0};
    const size_t bytes = tower_work_bytes(config, rows.rows(), settings);
    if (row.kind == AttentionKind::kDense) {
      EXPECT_EQ(bytes, dense);
      continue;
    }
    if (!chooses_keys(row.kind)) {
      EXPECT_GT(bytes, dense) << row.name;
      continue;
    }
    const auto values = static_cast<size_t>(rows.rows() * config.hidden_size);
    const std::vector<float> x(values, 0.5f);
    KeyValues kv(unbounded_pages(config.num_heads, config.head_dim), config.num_heads,
                 config.head_dim);
    kv.reserve(rows.rows());
    kv.append(x.data(), config.hidden_size, x.data(), config.hidden_size, rows.rows());
    const PagedKeys keys = kv.view();
    const AttentionParams params{.heads = config.num_heads};
    const PooledKeys pooled(threads, keys, nullptr, rows);
    const SparseAttention given{x.data(), config.hidden_size, &keys, &params, &rows, &pooled};
    const ChosenKeys chosen = choose_by_kind(threads, given, settings);
    size_t least = chosen.begins.size() * sizeof(int64_t) + chosen.ranges.size() * sizeof(KeyRange);
    if (row.by_blocks)  // pooled keys and values, mean queries, and the scores of blocks
      least += sizeof(float) * (static_cast<size_t>(rows.groups()) * 3 * config.hidden_size +
                                static_cast<size_t>(config.num_heads) * 64 * 64);
    EXPECT_GE(bytes, dense + least) << row.name;
  }
}

}  // namespace
}  // namespace fovea
