// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "ops/attention/eight/attention_eight.h"
#include "ops/attention/sparse/kinds.h"
#include "ops/attention/sparse/test_rows.h"
#include "ops/test_plain_keys.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

using test::grid;
using test::shapes;
using test::SparseCase;
using test::SparseShape;

// Of each kind that chooses keys, with few blocks where it chooses them.
std::vector<SparseSettings> sparse_kinds() {
  std::vector<SparseSettings> settings;
  for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower))
    if (chooses_keys(row.kind)) settings.push_back({row.kind, 0.3});
  return settings;
}

const char* name_of(const SparseSettings& settings) {
  return attention_kinds()[static_cast<size_t>(settings.kind)].name;
}

TEST(RowBlocks, HoldNeighboursOfOneLevelAndEveryRowOnce) {
  for (const SparseShape& shape : shapes()) {
    const RowBlocks rows = block_rows(shape.places);
    std::set<int32_t> seen(rows.order.begin(), rows.order.end());
    EXPECT_EQ(seen.size(), shape.places.size()) << shape.name;
    for (int64_t i = 0; i < rows.rows(); ++i)
      EXPECT_EQ(rows.places[i], shape.places[static_cast<size_t>(rows.order[i])]);
    EXPECT_EQ(rows.end_row(rows.blocks() - 1), rows.rows());
    for (int block = 0; block < rows.blocks(); ++block) {
      const GridPlace& first = rows.places[rows.first_row(block)];
      ASSERT_LT(rows.first_row(block), rows.end_row(block));
      EXPECT_LE(rows.block_begins[block + 1] - rows.block_begins[block], 4);
      for (int32_t row = rows.first_row(block); row < rows.end_row(block); ++row) {
        EXPECT_EQ(rows.places[row].level, first.level);
        EXPECT_EQ(rows.places[row].x / 8, first.x / 8) << shape.name;
        EXPECT_EQ(rows.places[row].y / 8, first.y / 8) << shape.name;
      }
    }
    for (int group = 0; group < rows.groups(); ++group) {
      const GridPlace& first = rows.places[rows.group_begins[group]];
      for (int32_t row = rows.group_begins[group]; row < rows.group_begins[group + 1]; ++row)
        EXPECT_TRUE(rows.places[row].x / 4 == first.x / 4 && rows.places[row].y / 4 == first.y / 4);
    }
  }
  EXPECT_EQ(block_rows({}).blocks(), 0);
}

TEST(RowBlocks, KeepThePatchesOfACellTogether) {
  const RowBlocks rows = block_rows(grid(22, 14));
  for (int64_t i = 0; i < rows.rows(); i += 4) {
    const GridPlace& first = rows.places[i];
    EXPECT_TRUE(first.x % 2 == 0 && first.y % 2 == 0) << i;
    EXPECT_EQ(rows.places[i + 1], (GridPlace{0, first.x + 1, first.y}));
    EXPECT_EQ(rows.places[i + 2], (GridPlace{0, first.x, first.y + 1}));
    EXPECT_EQ(rows.places[i + 3], (GridPlace{0, first.x + 1, first.y + 1}));
  }
}

TEST(SparseAttention, EqualsItsReferenceForEveryChoiceTargetAndNumberOfThreads) {
  std::mt19937 random(3);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    const SparseAttention given = made.given();
    const int64_t stride = made.width + 2;
    const auto values = static_cast<size_t>(made.rows.rows() * stride);
    for (const SparseSettings& kind : sparse_kinds()) {
      Threads one(1);
      const ChosenKeys chosen = choose_by_kind(one, given, kind);
      auto expected = poisoned(values);
      attention_to_chosen_reference(given, chosen, {0, made.rows.blocks()}, expected.data(),
                                    stride);
      on_every_target([&](const std::string& target) {
        std::vector<float> first;
        for (const int thread_count : {1, 2, 3}) {
          Threads threads(thread_count);
          auto got = poisoned(values);
          attend_by_kind(threads, given, kind, got.data(), stride);
          for (size_t i = 0; i < values; ++i) {
            if (static_cast<int64_t>(i) % stride >= made.width)
              ASSERT_TRUE(std::isnan(got[i])) << "wrote between rows: " << shape.name;
            else  // scores to about 30: 30 * 1e-7 of a weight, and values to about 5
              ASSERT_NEAR(got[i], expected[i], 3e-5)
                  << shape.name << ", " << name_of(kind) << ", " << target << ", value " << i;
          }
          if (first.empty()) first = got;
          ASSERT_TRUE(same_bits(got, first)) << shape.name << ", " << target;
        }
      });
    }
  }
}

TEST(SparseAttention, IsDenseAttentionWhereAllBlocksAreChosen) {
  std::mt19937 random(4);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    Threads threads(2);
    const ChosenKeys all =
        choose_best_blocks(threads, made.given(), made.rows.blocks(), OtherBlocks::kPooled);
    EXPECT_EQ(all.share(made.rows), 1);
    std::vector<float> got(static_cast<size_t>(made.rows.rows() * made.width));
    std::vector<float> dense(got.size());
    attention_to_chosen(threads, made.given(), all, got.data(), made.width);
    attention(threads, made.q.data(), made.q_stride(), made.rows.rows(), made.view, made.params,
              dense.data(), made.width);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], dense[i], 3e-5) << shape.name;
  }
}

// A group whose rows are all alike loses nothing by being one key.
TEST(SparseAttention, PooledKeysCountAsTheirRows) {
  std::mt19937 random(6);
  const RowBlocks rows = block_rows(grid(21, 18));
  constexpr int kDim = 16;
  PlainKeys kv(1, kDim);
  for (int group = 0; group < rows.groups(); ++group) {
    const auto k = random_values(kDim, random, 2);
    const auto v = random_values(kDim, random);
    for (int32_t row = rows.group_begins[group]; row < rows.group_begins[group + 1]; ++row)
      kv.append(k.data(), kDim, v.data(), kDim, 1);
  }
  const auto q = random_values(static_cast<size_t>(rows.rows() * kDim), random, 2);
  const AttentionParams params{.heads = 1, .scale = 0.25f};
  const PagedKeys view = kv.view();
  Threads threads(2);
  const PooledKeys pooled(threads, view, nullptr, rows);
  const SparseAttention given{q.data(), kDim, &view, &params, &rows, &pooled};
  const ChosenKeys chosen = choose_best_blocks(threads, given, 1, OtherBlocks::kPooled);
  EXPECT_LT(chosen.share(rows), 0.25);
  std::vector<float> got(q.size());
  std::vector<float> dense(q.size());
  attention_to_chosen(threads, given, chosen, got.data(), kDim);
  attention(threads, q.data(), kDim, rows.rows(), view, params, dense.data(), kDim);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], dense[i], 3e-5) << i;
}

// The mean of a group stands for it and for nothing else.
TEST(SparseAttention, GroupsAloneAreDenseAttentionToTheirMeans) {
  std::mt19937 random(11);
  const SparseCase made({"grid", grid(22, 15), 2, 1, 12, true}, random);
  const PagedKeys means = made.pooled->view();
  AttentionParams params = made.params;
  params.key_bias = made.pooled->biases();
  std::vector<float> expected(static_cast<size_t>(made.rows.rows() * made.width));
  attention_reference(made.q.data(), made.q_stride(), made.rows.rows(), means, params,
                      expected.data(), made.width);
  Threads threads(2);
  std::vector<float> got(expected.size());
  attend_by_kind(threads, made.given(), {AttentionKind::kLinformer, 0}, got.data(), made.width);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 3e-5) << i;
}

// Against dense attention in which a bias hides what a query does not see.
TEST(SparseAttention, AWindowIsWhatItsNameSays) {
  std::mt19937 random(7);
  const SparseCase made({"window", grid(20, 11), 1, 1, 8}, random);
  for (const KeyWindow window : {KeyWindow{1, 1}, KeyWindow{2, 1}, KeyWindow{1, 2}}) {
    Threads threads(2);
    const ChosenKeys chosen = choose_window(made.rows, window);
    std::vector<float> got(static_cast<size_t>(made.rows.rows() * made.width));
    attention_to_chosen(threads, made.given(), chosen, got.data(), made.width);
    for (int64_t i = 0; i < made.rows.rows(); ++i) {
      const GridPlace& at = made.rows.places[i];
      std::vector<float> hidden;
      int seen = 0;
      for (const GridPlace& key : made.rows.places) {
        bool visible = false;
        for (int dy = -window.radius; dy <= window.radius; ++dy)
          for (int dx = -window.radius; dx <= window.radius; ++dx)
            visible |= key == GridPlace{0, at.x + dx * window.step, at.y + dy * window.step};
        seen += visible ? 1 : 0;
        hidden.push_back(visible ? 0 : -1e4f);
      }
      ASSERT_LE(seen, (2 * window.radius + 1) * (2 * window.radius + 1));
      AttentionParams params = made.params;
      params.key_bias = hidden.data();
      std::vector<float> expected(static_cast<size_t>(made.width));
      attention_reference(made.q.data() + i * made.q_stride(), made.q_stride(), 1, made.view,
                          params, expected.data(), made.width);
      for (int64_t c = 0; c < made.width; ++c)
        ASSERT_NEAR(got[i * made.width + c], expected[c], 3e-5) << "row " << i;
    }
  }
}

TEST(AttentionKinds, AreFoundByTheirNames) {
  for (const AttentionKindRow& row : attention_kinds()) {
    EXPECT_EQ(&row_of(row.kind), &row);
    EXPECT_TRUE(row.patch_words != nullptr || row.token_words != nullptr) << row.name;
    for (const AttentionPlace place : {AttentionPlace::kTower, AttentionPlace::kText}) {
      const auto found = find_attention_kind(row.name, place);
      ASSERT_EQ(static_cast<bool>(found), row.words(place) != nullptr) << row.name;
      if (found) {
        EXPECT_EQ(*found, row.kind);
      }
    }
  }
  const auto unknown = find_attention_kind("nosuch");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(
      unknown.error().message,
      "there is no attention \"nosuch\": choose one of dense, local3, local5, dilated, "
      "strided, top-blocks, hierarchical, level-sum, linformer, performer, shared-blocks, eight");
  EXPECT_EQ(find_attention_kind("local3", AttentionPlace::kText).error().message,
            "attention \"local3\" is for the tower alone: choose one of dense, strided, "
            "top-blocks, window, prefix");
}

// Rows of any width, heads that share keys, biases; heads that are no power of two are not spread.
TEST(AttentionKinds, EightIsItsReference) {
  std::mt19937 random(12);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    const SparseAttention given = made.given();
    const auto values = static_cast<size_t>(made.rows.rows() * made.width);
    std::vector<float> expected(values);
    std::vector<float> dense(values);
    attention_eight_reference(given.q, given.q_stride, made.rows.rows(), made.view, made.params,
                              eight_options(shape.head_dim), expected.data(), made.width);
    attention_reference(given.q, given.q_stride, made.rows.rows(), made.view, made.params,
                        dense.data(), made.width);
    std::vector<float> first;
    for (const int count : {1, 2, 3}) {
      Threads threads(count);
      auto got = poisoned(values);
      attend_by_kind(threads, given, {AttentionKind::kEight, 0}, got.data(), made.width);
      if (first.empty()) first = got;
      EXPECT_TRUE(same_bits(got, first)) << shape.name << ", " << count << " threads";
    }
    double off = 0;
    double rounded = 0;
    for (size_t i = 0; i < values; ++i) {
      off += std::pow(double{first[i]} - expected[i], 2);
      rounded += std::pow(double{first[i]} - dense[i], 2);
    }
    // A value between two of eight bits may round to either, f32 or f64: a step is 1/8 of it.
    EXPECT_LE(std::sqrt(off / static_cast<double>(values)), 2e-3) << shape.name;
    EXPECT_GT(rounded, off) << shape.name << ": nothing was rounded";
  }
}

TEST(AttentionKinds, MayWriteOverTheirQueries) {
  std::mt19937 random(10);
  const SparseCase made({"grid", grid(26, 18), 4, 2, 32}, random);
  Threads threads(2);
  for (const AttentionKindRow& one : attention_kinds(AttentionPlace::kTower)) {
    if (one.kind == AttentionKind::kDense) continue;
    const SparseSettings kind{one.kind, one.by_blocks ? 0.3 : 0};
    std::vector<float> apart(made.q.size());
    std::vector<float> over = made.q;
    SparseAttention given = made.given();
    attend_by_kind(threads, given, kind, apart.data(), made.q_stride());
    given.q = over.data();
    attend_by_kind(threads, given, kind, over.data(), made.q_stride());
    for (int64_t row = 0; row < made.rows.rows(); ++row)
      for (int64_t i = 0; i < made.width; ++i)
        ASSERT_TRUE(same_bits(over[row * made.q_stride() + i], apart[row * made.q_stride() + i]))
            << name_of(kind);
  }
}

void expect_same_choice(const ChosenKeys& got, const ChosenKeys& expected,
                        const std::string& where) {
  ASSERT_EQ(got.begins, expected.begins) << where;
  for (size_t i = 0; i < got.ranges.size(); ++i) {
    EXPECT_EQ(got.ranges[i].first, expected.ranges[i].first) << where;
    EXPECT_EQ(got.ranges[i].count, expected.ranges[i].count) << where;
    EXPECT_EQ(got.ranges[i].pooled, expected.ranges[i].pooled) << where;
  }
}

TEST(ChosenKeys, TheBestBlocksAreThoseOfTheReference) {
  std::mt19937 random(8);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    for (const OtherBlocks others : {OtherBlocks::kNone, OtherBlocks::kPooled}) {
      const ChosenKeys expected = choose_best_blocks_reference(made.given(), 3, others);
      on_every_target([&](const std::string& target) {
        Threads threads(2);
        expect_same_choice(choose_best_blocks(threads, made.given(), 3, others), expected,
                           shape.name + (", " + target));
      });
    }
  }
}

TEST(ChosenKeys, TheSharedBlocksAreThoseOfTheReference) {
  std::mt19937 random(12);
  for (const SparseShape& shape : shapes()) {
    const SparseCase made(shape, random);
    const ChosenKeys expected = choose_shared_blocks_reference(made.given(), 2);
    on_every_target([&](const std::string& target) {
      Threads threads(2);
      expect_same_choice(choose_shared_blocks(threads, made.given(), 2), expected,
                         shape.name + (", " + target));
    });
  }
}

// Keys of one block point where all queries point: it is the one that all see in full.
TEST(ChosenKeys, TheSharedBlockIsTheOneThatAllAttendTo) {
  constexpr int kDim = 8;
  constexpr int kWanted = 7;
  std::mt19937 random(13);
  SparseCase made({"grid", grid(32, 24), 2, 1, kDim}, random);
  PlainKeys kv(1, kDim);
  for (int block = 0; block < made.rows.blocks(); ++block)
    for (int32_t row = made.rows.first_row(block); row < made.rows.end_row(block); ++row) {
      auto k = random_values(kDim, random, 0.3f);
      if (block == kWanted) k[0] += 4;
      kv.append(k.data(), kDim, k.data(), kDim, 1);
    }
  for (int64_t row = 0; row < made.rows.rows(); ++row)
    for (int head = 0; head < 2; ++head) made.q[row * made.q_stride() + head * kDim] += 3;
  made.view = kv.view();
  Threads threads(2);
  made.pooled = std::make_unique<PooledKeys>(threads, made.view, nullptr, made.rows);
  const ChosenKeys chosen = choose_shared_blocks(threads, made.given(), 1);
  ASSERT_EQ(chosen.begins.size(), static_cast<size_t>(made.rows.blocks()) + 1);
  for (int block = 0; block < made.rows.blocks(); ++block) {
    int rows = 0;
    bool wanted = false;
    for (int64_t i = chosen.begins[block]; i < chosen.begins[block + 1]; ++i) {
      const KeyRange& range = chosen.ranges[static_cast<size_t>(i)];
      if (range.pooled) continue;
      rows += range.count;
      wanted |= range.first <= made.rows.first_row(kWanted) &&
                made.rows.end_row(kWanted) <= range.first + range.count;
    }
    EXPECT_TRUE(wanted) << block;
    EXPECT_EQ(rows, block == kWanted ? 64 : 128) << block;
  }
}

TEST(ChosenKeys, TheOwnBlockIsAlwaysChosenAndNoKeyTwice) {
  std::mt19937 random(9);
  const SparseCase made({"grid", grid(40, 33), 2, 2, 16}, random);
  Threads threads(2);
  for (const SparseSettings& kind : sparse_kinds()) {
    const ChosenKeys chosen = choose_by_kind(threads, made.given(), kind);
    const int blocks = made.rows.blocks();
    for (size_t i = 0; i + 1 < chosen.begins.size(); ++i) {
      std::set<int32_t> rows;
      std::set<int32_t> groups;
      for (int64_t r = chosen.begins[i]; r < chosen.begins[i + 1]; ++r) {
        const KeyRange& range = chosen.ranges[static_cast<size_t>(r)];
        for (int32_t key = range.first; key < range.first + range.count; ++key)
          EXPECT_TRUE((range.pooled ? groups : rows).insert(key).second) << name_of(kind);
      }
      if (!sees_own_block(kind.kind)) continue;
      const int own = static_cast<int>(i) % blocks;
      for (int32_t row = made.rows.first_row(own); row < made.rows.end_row(own); ++row)
        EXPECT_TRUE(rows.contains(row)) << name_of(kind);
    }
  }
}

}  // namespace
}  // namespace fovea
