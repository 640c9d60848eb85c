// SPDX-License-Identifier: Apache-2.0
#include "ops/key_values.h"

#include "ops/test_values.h"

namespace fovea {
namespace {

constexpr int kHeads = 3;
constexpr int kDim = 8;
constexpr int64_t kWidth = kHeads * kDim;

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
    KeyValues kv(kHeads, kDim);
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
  KeyValues kv(kHeads, kDim);
  kv.append(keys.data(), kWidth, values.data(), kWidth, 120);
  kv.append(other.data(), kWidth, other.data(), kWidth, 50);
  kv.truncate(120);
  kv.append(keys.data() + 120 * kWidth, kWidth, values.data() + 120 * kWidth, kWidth, 80);
  expect_rows(kv, keys, values, kWidth);
}

TEST(KeyValues, TakesNoMoreThanWasReserved) {
  std::mt19937 random(10);
  const auto keys = random_values(200 * kWidth, random);
  KeyValues kv(kHeads, kDim);
  kv.reserve(200);
  EXPECT_EQ(kv.capacity(), 200);
  EXPECT_EQ(kv.bytes(), 2u * 200 * kWidth * sizeof(float));
  const float* place = kv.key(0, 0);
  for (int64_t i = 0; i < 200; ++i)
    kv.append(keys.data() + i * kWidth, kWidth, keys.data() + i * kWidth, kWidth, 1);
  EXPECT_EQ(kv.capacity(), 200);
  EXPECT_EQ(kv.key(0, 0), place);
  kv.reserve(10);
  EXPECT_EQ(kv.capacity(), 200);
}

TEST(KeyValues, TakesExactlyWhatComesFirst) {
  std::mt19937 random(11);
  const auto keys = random_values(100 * kWidth, random);
  KeyValues kv(kHeads, kDim);
  kv.append(keys.data(), kWidth, keys.data(), kWidth, 100);
  EXPECT_EQ(kv.capacity(), 100);
}

TEST(KeyValues, GrowsInStepsThatAreNeitherTinyNorLarge) {
  std::mt19937 random(12);
  const auto row = random_values(kWidth, random);
  KeyValues kv(kHeads, kDim);
  int grown = 0;
  int64_t capacity = 0;
  for (int i = 0; i < 4000; ++i) {
    kv.append(row.data(), kWidth, row.data(), kWidth, 1);
    if (kv.capacity() != capacity) ++grown;
    capacity = kv.capacity();
    ASSERT_LE(capacity, kv.size() + std::max<int64_t>(64, kv.size() / 8));
  }
  EXPECT_LE(grown, 40);
}

TEST(KeyValues, ThreadsCopyTheSame) {
  std::mt19937 random(13);
  constexpr int64_t kCount = 5000;
  const auto keys = random_values(kCount * kWidth, random);
  const auto values = random_values(kCount * kWidth, random);
  for (const int count : {1, 2, 3}) {
    Threads threads(count);
    KeyValues kv(kHeads, kDim);
    kv.append(threads, keys.data(), kWidth, values.data(), kWidth, kCount);
    expect_rows(kv, keys, values, kWidth);
  }
}

}  // namespace
}  // namespace fovea
