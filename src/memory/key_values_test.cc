// SPDX-License-Identifier: Apache-2.0
#include "memory/key_values.h"

#include <cmath>
#include <new>

#include "ops/attention/attention.h"
#include "ops/test_plain_keys.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

constexpr int kHeads = 3;
constexpr int kDim = 8;
constexpr int64_t kWidth = kHeads * kDim;

KeyValues fresh() { return {unbounded_pages(kHeads, kDim), kHeads, kDim}; }

// Key i is row i of `keys`, whatever was added, grown and forgotten before.
void expect_rows(const KeyValues& kv, const std::vector<float>& keys,
                 const std::vector<float>& values, int64_t stride) {
  for (int head = 0; head < kHeads; ++head) {
    for (int64_t i = 0; i < kv.size(); ++i) {
      for (int d = 0; d < kDim; ++d) {
        const auto at = static_cast<size_t>(i * stride + head * kDim + d);
        ASSERT_EQ(kv.key(head, i)[d], keys[at]) << "head " << head << ", key " << i;
        ASSERT_EQ(kv.value(head, i)[d], values[at]) << "head " << head << ", key " << i;
      }
    }
  }
}

TEST(KeyValues, KeepsWhatWasAddedWhileItGrows) {
  std::mt19937 random(8);
  constexpr int64_t kStride = kWidth + 5;
  const auto keys = random_values(300 * kStride, random);
  const auto values = random_values(300 * kStride, random);
  for (const int64_t step : {1, 7, 100}) {
    KeyValues kv = fresh();
    for (int64_t i = 0; i < 300; i += step) {
      const int64_t count = std::min<int64_t>(step, 300 - i);
      kv.append(keys.data() + i * kStride, kStride, values.data() + i * kStride, kStride, count);
    }
    ASSERT_EQ(kv.size(), 300);
    expect_rows(kv, keys, values, kStride);
  }
}

TEST(KeyValues, ForgetsItsEndAlone) {
  std::mt19937 random(9);
  const auto keys = random_values(200 * kWidth, random);
  const auto values = random_values(200 * kWidth, random);
  const auto other = random_values(200 * kWidth, random);
  KeyValues kv = fresh();
  kv.append(keys.data(), kWidth, values.data(), kWidth, 120);
  kv.append(other.data(), kWidth, other.data(), kWidth, 50);
  kv.truncate(120);
  kv.append(keys.data() + 120 * kWidth, kWidth, values.data() + 120 * kWidth, kWidth, 80);
  expect_rows(kv, keys, values, kWidth);
}

// What is there never moves, so that growing copies nothing, and no more than a page lies idle.
TEST(KeyValues, GrowsByPagesThatStayWhereTheyAre) {
  std::mt19937 random(12);
  const auto row = random_values(kWidth, random);
  KeyValues kv = fresh();
  kv.append(row.data(), kWidth, row.data(), kWidth, 1);
  const float* place = kv.key(2, 0);
  for (int i = 1; i < 4000; ++i) {
    kv.append(row.data(), kWidth, row.data(), kWidth, 1);
    ASSERT_LT(kv.capacity(), kv.size() + kPageTokens);
  }
  EXPECT_EQ(kv.key(2, 0), place);
  EXPECT_EQ(kv.bytes(), 2u * kv.capacity() * kWidth * sizeof(float));
  const int64_t full = kv.capacity();
  kv.reserve(full + 1);
  EXPECT_EQ(kv.capacity(), full + kPageTokens);
  kv.truncate(kPageTokens + 1);
  EXPECT_EQ(kv.capacity(), 2 * kPageTokens);
}

TEST(KeyValues, ThreadsCopyTheSame) {
  std::mt19937 random(13);
  constexpr int64_t kCount = 5000;
  const auto keys = random_values(kCount * kWidth, random);
  const auto values = random_values(kCount * kWidth, random);
  for (const int count : {1, 2, 3}) {
    Threads threads(count);
    KeyValues kv = fresh();
    kv.append(threads, keys.data(), kWidth, values.data(), kWidth, kCount);
    expect_rows(kv, keys, values, kWidth);
  }
}

TEST(KeyValues, AFullPoolLeavesWhatIsThere) {
  std::mt19937 random(14);
  const auto keys = random_values(100 * kWidth, random);
  const int64_t page = page_bytes_for(kHeads, kDim);
  const auto pool = std::make_shared<PagePool>(
      PagePool::Settings{.page_bytes = page, .capacity_bytes = 2 * page});
  KeyValues kv(std::make_shared<Reservation>(pool), kHeads, kDim);
  kv.append(keys.data(), kWidth, keys.data(), kWidth, 90);
  EXPECT_THROW(kv.append(keys.data(), kWidth, keys.data(), kWidth, 40), std::bad_alloc);
  EXPECT_EQ(kv.size(), 90);
  expect_rows(kv, keys, keys, kWidth);
}

// A page made for larger heads holds more tokens of smaller ones.
TEST(KeyValues, HeadsOfAnotherSizeUseTheSamePages) {
  const int64_t page = page_bytes_for(8, 128);
  EXPECT_EQ(page, 524'288);
  EXPECT_EQ(tokens_of_page(page, 8, 128), 64);
  EXPECT_EQ(tokens_of_page(page, 16, 64), 64);
  EXPECT_EQ(tokens_of_page(page, 4, 128), 128);
  EXPECT_EQ(tokens_of_page(page_bytes_for(16, 72), 8, 128), 64);
  EXPECT_EQ(pages_for(65, page, 8, 128), 2);
  EXPECT_EQ(pages_for(0, page, 8, 128), 0);
}

// What two sequences share gives each what it had got alone.
TEST(KeyValues, ASharedBeginningGivesTheSameBits) {
  std::mt19937 random(15);
  const auto keys = random_values(150 * kWidth, random);
  const auto values = random_values(150 * kWidth, random);
  const auto q = random_values(40 * kWidth, random);
  const auto reservation = unbounded_pages(kHeads, kDim);
  Threads threads(2);
  const auto attend = [&](const PagedKeys& kv) {
    std::vector<float> out(40 * kWidth);
    attention(threads, q.data(), kWidth, 40, kv, {.heads = kHeads, .scale = 0.3f}, out.data(),
              kWidth);
    return out;
  };
  PlainKeys alone(kHeads, kDim);
  alone.append(keys.data(), kWidth, values.data(), kWidth, 150);
  KeyValues first(reservation, kHeads, kDim);
  first.append(keys.data(), kWidth, values.data(), kWidth, 70);
  KeyValues second(reservation, kHeads, kDim);
  ASSERT_TRUE(second.table().share(first.table().pages(), 70));
  first.append(values.data(), kWidth, keys.data(), kWidth, 80);  // something else
  second.append(keys.data() + 70 * kWidth, kWidth, values.data() + 70 * kWidth, kWidth, 80);
  EXPECT_TRUE(same_bits(attend(second.view()), attend(alone.view())));
}

// Every format: rows are the nearest it has, however they came, and pages hold as many more as they
// are smaller.
TEST(KeyValues, StoresRowsInTheirFormat) {
  std::mt19937 random(16);
  constexpr int64_t kCount = 700;
  const auto keys = random_values(kCount * kWidth, random);
  const auto values = random_values(kCount * kWidth, random);
  for (const KeyFormatRow& format : key_formats()) {
    KeyValues at_once(unbounded_pages(kHeads, kDim), kHeads, kDim, format.format);
    Threads threads(2);
    at_once.append(threads, keys.data(), kWidth, values.data(), kWidth, kCount);
    KeyValues by_steps(unbounded_pages(kHeads, kDim), kHeads, kDim, format.format);
    for (int64_t i = 0; i < kCount; i += 7)
      by_steps.append(keys.data() + i * kWidth, kWidth, values.data() + i * kWidth, kWidth, 7);
    for (int head = 0; head < kHeads; ++head)
      for (int64_t i = 0; i < kCount; ++i) {
        std::byte stored[kDim * sizeof(float)];
        uint16_t scale = 0;
        float expected[kDim];
        narrow_rows(format.format, values.data() + i * kWidth + int64_t{head} * kDim, kDim, 1, kDim,
                    stored, &scale);
        widen_rows(format.format, {stored, &scale}, 1, kDim, expected);
        for (const KeyValues* kv : {&at_once, &by_steps}) {
          float got[kDim];
          widen_rows(format.format, kv->view().stored_value(head, i), 1, kDim, got);
          for (int d = 0; d < kDim; ++d) ASSERT_EQ(got[d], expected[d]) << format.name << ", " << i;
        }
      }
    EXPECT_GE(at_once.capacity(), kCount);
    EXPECT_LT(at_once.capacity() -
                  tokens_of_page(page_bytes_for(kHeads, kDim), kHeads, kDim, format.format),
              kCount);
  }
  // Qwen3-VL-2B: bytes of a token beside those of bf16.
  const int64_t page = page_bytes_for(8, 128);
  EXPECT_EQ(tokens_of_page(page, 8, 128, KeyFormat::kBf16), 128);
  EXPECT_EQ(tokens_of_page(page, 8, 128, KeyFormat::kInt8), 248);
  EXPECT_EQ(tokens_of_page(page, 8, 128, KeyFormat::kFp8), 248);
  EXPECT_LE(128.0 / 248, 0.53);
}

// A row that moves keeps its bits; one that is made of several is the nearest to their mean.
TEST(KeyValues, KeepsStoredRows) {
  std::mt19937 random(17);
  constexpr int64_t kCount = 120;
  const auto keys = random_values(kCount * kWidth, random);
  const auto values = random_values(kCount * kWidth, random);
  KeptRows kept;  // of the keys 10 to 109: every second; 53 becomes one with 52
  for (int32_t i = 0; i < 100; ++i)
    kept.row_of.push_back(i == 43      ? kept.row_of[42]
                          : i % 2 == 0 ? static_cast<int32_t>(kept.rows++)
                                       : KeptRows::kForgotten);
  for (const KeyFormatRow& format : key_formats()) {
    KeyValues kv(unbounded_pages(kHeads, kDim), kHeads, kDim, format.format);
    kv.append(keys.data(), kWidth, values.data(), kWidth, kCount);
    KeyValues whole(unbounded_pages(kHeads, kDim), kHeads, kDim, format.format);
    whole.append(keys.data(), kWidth, values.data(), kWidth, kCount);
    kv.keep(10, kept);
    ASSERT_EQ(kv.size(), 70);
    const auto key_of = [&](const KeyValues& from, int head, int64_t row) {
      std::vector<float> wide(kDim);
      widen_rows(format.format, from.view().stored_key(head, row), 1, kDim, wide.data());
      return wide;
    };
    for (int head = 0; head < kHeads; ++head)
      for (int64_t row = 0; row < kv.size(); ++row) {
        const int64_t key = row < 10 ? row : row < 60 ? 2 * row - 10 : row + 50;
        const auto got = key_of(kv, head, row);
        if (key != 52) {
          ASSERT_EQ(got, key_of(whole, head, key)) << format.name << ", row " << row;
          continue;
        }
        const auto a = key_of(whole, head, 52);
        const auto b = key_of(whole, head, 53);
        for (size_t d = 0; d < got.size(); ++d)
          ASSERT_NEAR(got[d], (a[d] + b[d]) / 2, 0.15) << format.name;
      }
    EXPECT_FLOAT_EQ(kv.bias()[31], std::log(2.0f));
  }
}

// What stays moves to pages of its own; who shares the old ones keeps every bit of them.
TEST(KeyValues, KeepsRowsOnPagesOfItsOwn) {
  std::mt19937 random(14);
  constexpr int64_t kCount = 300;
  const auto keys = random_values(kCount * kWidth, random);
  const auto values = random_values(kCount * kWidth, random);
  const auto pages = unbounded_pages(kHeads, kDim);
  KeyValues kv(pages, kHeads, kDim);
  kv.append(keys.data(), kWidth, values.data(), kWidth, kCount);
  KeyValues other(pages, kHeads, kDim);
  ASSERT_TRUE(other.table().share(kv.table().pages(), 200));

  KeptRows kept;  // of the keys 10 to 249: every fourth; two become one with the one before them
  for (int32_t i = 0; i < 240; ++i) {
    const bool joins = i == 41 || i == 42;
    kept.row_of.push_back(joins        ? kept.row_of[40]
                          : i % 4 == 0 ? static_cast<int32_t>(kept.rows++)
                                       : KeptRows::kForgotten);
  }
  const size_t before = kv.bytes();
  kv.keep(10, kept);
  EXPECT_EQ(kv.size(), kCount - 240 + 60);
  EXPECT_LT(kv.bytes(), before / 2);
  EXPECT_EQ(pages->held(),
            static_cast<int64_t>(kv.table().pages().size() + other.table().pages().size()));
  expect_rows(other, keys, values, kWidth);
  for (int head = 0; head < kHeads; ++head)
    for (int64_t row = 0; row < kv.size(); ++row)
      for (int d = 0; d < kDim; ++d) {
        const auto at = [&](const std::vector<float>& all, int64_t key) {
          return all[static_cast<size_t>(key * kWidth + head * kDim + d)];
        };
        const int64_t key = row < 10 ? row : row < 70 ? 10 + 4 * (row - 10) : row + 180;
        if (key != 50) {
          ASSERT_EQ(kv.key(head, row)[d], at(keys, key)) << "row " << row;
          ASSERT_EQ(kv.value(head, row)[d], at(values, key)) << "row " << row;
        } else {
          const float mean = (at(keys, 50) + at(keys, 51) + at(keys, 52)) / 3;
          ASSERT_NEAR(kv.key(head, row)[d], mean, 1e-6) << "row " << row;
        }
      }
  ASSERT_NE(kv.bias(), nullptr);
  for (int64_t row = 0; row < kv.size(); ++row)
    EXPECT_FLOAT_EQ(kv.bias()[row], row == 20 ? std::log(3.0f) : 0) << "row " << row;
  // It goes on growing, and what comes then counts for one.
  kv.append(keys.data(), kWidth, values.data(), kWidth, 90);
  EXPECT_EQ(kv.bias()[kv.size() - 1], 0);
  EXPECT_EQ(kv.key(1, kv.size() - 90)[0], keys[kDim]);
  kv.truncate(15);
  EXPECT_EQ(kv.bytes(), page_bytes_for(kHeads, kDim));
}

// A pool that has no room for what stays beside what was there: nothing is changed.
TEST(KeyValues, WithoutRoomToMoveKeepsEverything) {
  std::mt19937 random(15);
  const auto keys = random_values(200 * kWidth, random);
  const auto pool = std::make_shared<PagePool>(
      PagePool::Settings{.page_bytes = page_bytes_for(kHeads, kDim),
                         .capacity_bytes = 4 * page_bytes_for(kHeads, kDim)});
  KeyValues kv(std::make_shared<Reservation>(pool), kHeads, kDim);
  kv.append(keys.data(), kWidth, keys.data(), kWidth, 200);
  KeptRows kept;
  for (int32_t i = 0; i < 200; ++i)
    kept.row_of.push_back(i < 100 ? static_cast<int32_t>(kept.rows++) : -1);
  EXPECT_THROW(kv.keep(0, kept), std::bad_alloc);
  EXPECT_EQ(kv.size(), 200);
  expect_rows(kv, keys, keys, kWidth);
}

}  // namespace
}  // namespace fovea
