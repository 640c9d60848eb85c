// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <gtest/gtest.h>

#include "base/threads.h"
#include "device/cpu/cpu.h"

namespace fovea {
namespace {

TEST(Devices, TheCpuComesFirstAndNamesItsCores) {
  const auto devices = list_devices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].name, "cpu");
  EXPECT_NE(devices[0].description.find(std::to_string(usable_cores()) + " core"),
            std::string::npos)
      << devices[0].description;
}

TEST(Devices, NamesAreUniqueAndNumberedByKind) {
  const auto devices = list_devices();
  for (size_t i = 1; i < devices.size(); ++i) {
    EXPECT_TRUE(devices[i].name.starts_with("cuda:") || devices[i].name.starts_with("vulkan:"))
        << devices[i].name;
    for (size_t k = 0; k < i; ++k) EXPECT_NE(devices[i].name, devices[k].name);
  }
}

TEST(Cpu, DescriptionNamesEverySimdTarget) {
  ASSERT_FALSE(simd_targets().empty());
  for (const std::string& target : simd_targets())
    EXPECT_NE(describe_cpu().find(target), std::string::npos) << target;
}

}  // namespace
}  // namespace fovea
