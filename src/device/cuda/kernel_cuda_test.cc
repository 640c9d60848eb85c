// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/kernel_cuda.h"

#include <algorithm>
#include <numeric>

#include "device/cuda/test_device.h"

namespace fovea {
namespace {

using KernelDialect = CudaTest;

TEST_F(KernelDialect, WarpsAndBlocksAddUp) {
  for (const int count : {1, 31, 256, 1000}) {
    std::vector<float> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 1.0f);
    constexpr int kBlock = 256;
    const auto input = on_device(values);
    auto sums = poisoned<float>(static_cast<size_t>((count + kBlock - 1) / kBlock));
    sum_blocks_cuda(stream(), input.data(), count, kBlock, sums.data());
    float all = 0;
    for (const float sum : on_host(sums)) all += sum;
    EXPECT_EQ(all, static_cast<float>(count) * static_cast<float>(count + 1) / 2);
  }
}

TEST_F(KernelDialect, LanesExchangeValues) {
  std::vector<int> values(3 * 96);
  std::iota(values.begin(), values.end(), 0);
  const auto input = on_device(values);
  auto reversed = poisoned<int>(values.size());
  reverse_warps_cuda(stream(), input.data(), 3, 96, reversed.data());
  const auto result = on_host(reversed);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(result[i], static_cast<int>(i / 32 * 32 + 31 - i % 32) + 16);
}

TEST_F(KernelDialect, TheLastBlockSeesWhatAllWrote) {
  std::vector<int> values(7 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * i / 3);
  const auto input = on_device(values);
  const auto done = on_device(std::vector<unsigned>(1));
  auto total = on_device(std::vector<int>(8));
  count_even_cuda(stream(), input.data(), 7, 64, const_cast<unsigned*>(done.data()), total.data());
  EXPECT_EQ(on_host(total)[0],
            std::count_if(values.begin(), values.end(), [](int value) { return value % 2 == 0; }));
}

bool has_clusters() {
  cudaDeviceProp properties{};
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess &&
         (kEmulated || properties.major >= 9);
}

TEST_F(KernelDialect, BlocksOfAClusterReadEachOther) {
  if (!has_clusters()) GTEST_SKIP() << "no clusters before sm_90";
  constexpr int kCluster = 4;
  constexpr size_t kBlock = 64;
  std::vector<float> values(3 * kCluster * kBlock);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 31);
  const auto input = on_device(values);
  auto sums = poisoned<float>(values.size());
  sum_clusters_cuda(stream(), input.data(), 3 * kCluster, kBlock, kCluster, sums.data());
  const auto result = on_host(sums);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t first = i / (kCluster * kBlock) * kCluster * kBlock + i % kBlock;
    float expected = 0;
    for (size_t rank = 0; rank < kCluster; ++rank)
      expected += static_cast<float>(rank) * values[first + rank * kBlock];
    EXPECT_EQ(result[i], expected) << i;
  }
}

TEST_F(KernelDialect, BlocksOfAClusterWriteToEachOther) {
  if (!has_clusters()) GTEST_SKIP() << "no clusters before sm_90";
  constexpr int kCluster = 4;
  constexpr size_t kBlock = 64;
  std::vector<float2> values(3 * kCluster * kBlock);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = make_float2(static_cast<float>(i), static_cast<float>(i * 7 % 31));
  const auto input = on_device(values);
  auto shifted = poisoned<float2>(values.size());
  shift_clusters_cuda(stream(), input.data(), 3 * kCluster, kBlock, kCluster, shifted.data());
  const auto result = on_host(shifted);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t from = i / kBlock % kCluster == 0 ? i + (kCluster - 1) * kBlock : i - kBlock;
    EXPECT_EQ(result[i].x, values[from].x) << i;
    EXPECT_EQ(result[i].y, values[from].y) << i;
  }
}

TEST_F(KernelDialect, MemoryThatThereIsNotIsAnErrorAndNoMore) {
  DeviceMemory<float> memory;
  ASSERT_TRUE(memory.allocate(8));
  const Status refused = memory.allocate(size_t{1} << 38);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("the GPU has no memory for 1048576 MiB: "))
      << refused.error().message;
  EXPECT_NE(refused.error().message.find(" MiB are free; use a smaller model, image or budget"),
            std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(memory.empty());
  EXPECT_TRUE(memory.at_least(8));
  EXPECT_EQ(memory.size(), 8u);
  // Nor does the error come up later.
  EXPECT_EQ(on_host(on_device(std::vector<int>{1, 2, 3})), (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(stream_.wait());
}

}  // namespace
}  // namespace fovea
