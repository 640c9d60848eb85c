// SPDX-License-Identifier: Apache-2.0
#include "base/out_of_memory.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace fovea {
namespace {

TEST(WithinMemory, GivesWhatTheWorkGives) {
  EXPECT_EQ(*within_memory([]() -> Result<int> { return 7; }), 7);
  EXPECT_EQ(within_memory([]() -> Result<int> { return bad_input("no"); }).error().message, "no");
}

TEST(WithinMemory, MemoryThatRunsOutIsAnErrorThatSaysWhatToTry) {
  const auto result = within_memory([]() -> Result<int> { throw std::bad_alloc(); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Error::Kind::kFailed);
  EXPECT_TRUE(result.error().message.starts_with("out of memory; try ")) << result.error().message;
}

TEST(WithinMemory, OtherThingsThrownPass) {
  const auto work = []() -> Result<int> { throw std::runtime_error("of the caller's function"); };
  EXPECT_THROW(static_cast<void>(within_memory(work)), std::runtime_error);
}

}  // namespace
}  // namespace fovea
