// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/weight_uploads.h"

#include <cstdint>

#include "device/cuda/test_device.h"

namespace fovea {
namespace {

using WeightUploadsTest = CudaTest;

std::vector<uint32_t> numbers(size_t count, uint32_t first) {
  std::vector<uint32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<uint32_t>(i) * 2654435761u;
  return values;
}

TEST_F(WeightUploadsTest, EveryValueArrivesWithAnyNumberOfThreads) {
  constexpr size_t kPiece = (size_t{2} << 20) / sizeof(uint32_t);
  const size_t counts[] = {1, 7, kPiece - 1, kPiece, 3 * kPiece + 5, 0, 100};
  for (const int helpers : {0, 1, 5}) {
    SCOPED_TRACE(helpers);
    std::vector<std::vector<uint32_t>> given;
    std::vector<DeviceMemory<uint32_t>> there;
    WeightUploads uploads(stream_, helpers);
    for (const size_t count : counts) {
      given.push_back(numbers(count, static_cast<uint32_t>(given.size())));
      there.emplace_back();
      ASSERT_TRUE(there.back().allocate(count));
      ASSERT_TRUE(uploads.put(there.back().data(), given.back().data(), count));
      if (count == 7) {
        ASSERT_TRUE(uploads.settle());  // others follow
      }
    }
    {
      const std::vector<uint32_t> gone = numbers(1000, 5);
      there.emplace_back();
      ASSERT_TRUE(there.back().allocate(gone.size()));
      ASSERT_TRUE(uploads.put_now(there.back().data(), gone.data(), gone.size()));
    }
    given.push_back(numbers(1000, 5));
    ASSERT_TRUE(uploads.finish());
    for (size_t i = 0; i < given.size(); ++i) EXPECT_EQ(on_host(there[i]), given[i]) << i;
  }
}

TEST_F(WeightUploadsTest, WhatFollowsFindsWhatIsSettled) {
  const std::vector<uint32_t> values = numbers(1 << 20, 3);
  DeviceMemory<uint32_t> first;
  DeviceMemory<uint32_t> second;
  ASSERT_TRUE(first.allocate(values.size()));
  ASSERT_TRUE(second.allocate(values.size()));
  WeightUploads uploads(stream_, 3);
  ASSERT_TRUE(uploads.put(first.data(), values.data(), values.size()));
  ASSERT_TRUE(uploads.settle());
  stream_.copy(second.data(), first.data(), values.size());
  ASSERT_TRUE(uploads.finish());
  EXPECT_EQ(on_host(second), values);
}

TEST_F(WeightUploadsTest, NothingToUploadIsFinishedAtOnce) {
  WeightUploads uploads(stream_);
  EXPECT_TRUE(uploads.settle());
  EXPECT_TRUE(uploads.finish());
}

}  // namespace
}  // namespace fovea
