// SPDX-License-Identifier: Apache-2.0
#include "base/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace fovea {
namespace {

TEST(Buffer, HoldsItsValuesAlignedToACacheLineAtAnySize) {
  for (const size_t count : {size_t{1}, size_t{15}, size_t{4096}, size_t{3} << 20}) {
    Buffer<uint16_t> buffer(count);
    ASSERT_EQ(buffer.size(), count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    std::iota(buffer.begin(), buffer.end(), uint16_t{7});
    EXPECT_EQ(buffer[0], 7);
    EXPECT_EQ(buffer[count - 1], static_cast<uint16_t>(6 + count));
  }
}

TEST(Buffer, MovingHandsOverTheMemory) {
  Buffer<float> buffer(100);
  std::fill(buffer.begin(), buffer.end(), 2.5f);
  const float* data = buffer.data();
  Buffer<float> other(3);
  other = std::move(buffer);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.size(), 100u);
  EXPECT_EQ(other[99], 2.5f);
  EXPECT_TRUE(Buffer<float>().empty());
  EXPECT_TRUE(Buffer<float>(0).empty());
}

TEST(PreferLargePages, LeavesContentsAndSmallMemoryAlone) {
  std::vector<uint8_t> bytes(size_t{9} << 20, 3);
  prefer_large_pages(bytes.data(), bytes.size());
  prefer_large_pages(bytes.data(), 100);
  prefer_large_pages(nullptr, 0);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 3), static_cast<long>(bytes.size()));
}

}  // namespace
}  // namespace fovea
