// SPDX-License-Identifier: Apache-2.0
// What tests of kernels share: a device, or the reason there is none.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "device/cuda/stream.h"

namespace fovea {

// Skips where no GPU is; emulated, there is one always.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
      GTEST_SKIP() << "no CUDA device on this machine";
    ASSERT_TRUE(stream_.open());
  }

  // Values on the device.
  template <class T>
  DeviceMemory<T> on_device(const std::vector<T>& values) {
    DeviceMemory<T> memory;
    EXPECT_TRUE(memory.allocate(values.size()));
    stream_.upload(memory.data(), values.data(), values.size());
    EXPECT_TRUE(stream_.wait());
    return memory;
  }
  // Memory that is full of NaN.
  template <class T>
  DeviceMemory<T> poisoned(size_t count) {
    DeviceMemory<T> memory;
    EXPECT_TRUE(memory.allocate(count));
    cudaMemsetAsync(memory.data(), 0xFF, memory.bytes(), stream_.get());
    return memory;
  }
  template <class T>
  std::vector<T> on_host(const DeviceMemory<T>& memory) {
    std::vector<T> values(memory.size());
    stream_.download(values.data(), memory.data(), values.size());
    const Status done = stream_.wait();
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    return values;
  }

  cudaStream_t stream() const { return stream_.get(); }

  Stream stream_;
};

}  // namespace fovea
