// SPDX-License-Identifier: Apache-2.0
// What tests of models on a GPU share: the GPU as models get it, and how near to the CPU they are.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/cuda_accelerator.h"
#include "device/cuda/test_device.h"
#if defined(FOVEA_EMULATE)
#include "device/cuda/emulated_memory.h"
#endif

namespace fovea {

// The parameter says whether kernels are the portable ones.
class AcceleratorTest : public CudaTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_shared<CudaAccelerator>();
    const Status opened = device_->open({.index = 0, .portable = GetParam()});
    ASSERT_TRUE(opened) << opened.error().message;
  }

  std::shared_ptr<CudaAccelerator> device_;
};

// Emulated, there are no others than the portable ones.
inline std::vector<bool> kernel_choices() {
  return kEmulated ? std::vector<bool>{true} : std::vector<bool>{false, true};
}
inline std::string kernel_choice_name(const testing::TestParamInfo<bool>& choice) {
  return choice.param ? "portable" : "best";
}

// The device has no memory after so many allocations, where it is emulated; below 0: as it was.
inline void limit_allocations([[maybe_unused]] int count) {
#if defined(FOVEA_EMULATE)
  emulate::set_memory_faults({.before = count});
#endif
}

// The same for allocations of more than so many bytes, until memory is limited otherwise.
inline void limit_allocation_bytes([[maybe_unused]] size_t most) {
#if defined(FOVEA_EMULATE)
  emulate::set_memory_faults({.most_bytes = most});
#endif
}

// |actual - expected| / |expected|, over all values; NaN where a value is.
inline double relative_error(std::span<const float> expected, std::span<const float> actual) {
  EXPECT_EQ(expected.size(), actual.size());
  if (expected.size() != actual.size()) return 1;
  double off = 0;
  double all = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = double{actual[i]} - expected[i];
    off += difference * difference;
    all += double{expected[i]} * expected[i];
  }
  return std::sqrt(off / all);
}

inline double cosine_of(std::span<const float> expected, std::span<const float> actual) {
  double both = 0;
  double first = 0;
  double second = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    both += double{expected[i]} * actual[i];
    first += double{expected[i]} * expected[i];
    second += double{actual[i]} * actual[i];
  }
  return both / std::sqrt(first * second);
}

}  // namespace fovea
