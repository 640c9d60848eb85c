// SPDX-License-Identifier: Apache-2.0
// Requests on a device whose memory runs out: the one that had none ends with an error, all others
// answer as ever, and so does the next one. On the emulated GPU, whose allocations can be made to
// fail (device/cuda/emulated_memory.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/emulated_memory.h"
#include "engine/ask_fixture.h"
#include "engine/model.h"
#include "engine/scheduler.h"

namespace fovea {
namespace {

using emulate::MemoryFaults;
using emulate::MemoryTaken;
using test::expect_same_answer;
using test::gaze_path;

class DeviceMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (emulated_library().empty()) GTEST_SKIP() << "the emulation is not built";
    setenv("FOVEA_CUDA_LIBRARY", emulated_library().c_str(), 1);
    const auto device = open_accelerator("cuda", false);
    ASSERT_TRUE(device) << device.error().message;
    set_ = reinterpret_cast<emulate::SetMemoryFaults>(
        (*device)->function(emulate::kSetMemoryFaultsSymbol));
    ASSERT_NE(set_, nullptr);
  }
  void TearDown() override {
    if (set_ != nullptr) set_faults({});
    unsetenv("FOVEA_CUDA_LIBRARY");
  }

  MemoryTaken set_faults(const MemoryFaults& faults) const {
    MemoryTaken taken;
    set_(faults, taken);
    return taken;
  }

 private:
  emulate::SetMemoryFaults set_ = nullptr;
};

Result<std::shared_ptr<const Model>> load() {
  return load_model(gaze_path(), {.device = "cuda", .threads = 1});
}

void expect_no_memory(const Error& error, const std::string& where) {
  EXPECT_NE(error.message.find("memory"), std::string::npos) << where << ": " << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << where << ": " << error.message;
}

// Blocks of colour.
Image picture(Size size) {
  Image image(size);
  for (int y = 0; y < size.height_px; ++y)
    for (int x = 0; x < 3 * size.width_px; ++x)
      image.row(y)[x] = static_cast<uint8_t>((x / 90 * 7 + y / 40 * 5 + x % 3 * 4) % 11 * 23);
  return image;
}

// A request that has no memory, for a long answer or for a large picture, beside one that has.
TEST_F(DeviceMemoryTest, AFailureIsThatOfTheSessionThatNeededMore) {
  const auto model = load();
  ASSERT_TRUE(model) << model.error().message;
  AskOptions options;
  options.budget_tokens = 12;
  options.max_tokens = 3;
  AskOptions long_answer = options;
  long_answer.max_tokens = 1900;
  const Image small = *load_image(gaze_path("scene.png"));
  const Image large = picture({384, 224});
  const auto ask = [](Session& session, const AskOptions& with) {
    return session.ask("What is this?", with);
  };
  const auto session_with = [&](const Image& image) {
    Session session = session_of(*model);
    EXPECT_TRUE(session.add(image));
    return session;
  };
  Session of_large = session_with(large);
  const auto expected_of_large = ask(of_large, options);
  ASSERT_TRUE(expected_of_large) << expected_of_large.error().message;
  Session first = session_with(small);
  ASSERT_TRUE(ask(first, options));
  set_faults({});
  Session second = session_with(small);
  const auto expected = ask(second, options);
  ASSERT_TRUE(expected) << expected.error().message;
  const size_t most_bytes = set_faults({}).largest_bytes;

  for (const bool needs_long : {true, false}) {
    set_faults({.most_bytes = most_bytes});
    Session failing = session_with(needs_long ? small : large);
    auto other = std::async(std::launch::async,
                            [&] { return ask(failing, needs_long ? long_answer : options); });
    for (int i = 0; i < 2; ++i) {
      Session session = session_with(small);
      const auto answer = ask(session, options);
      ASSERT_TRUE(answer) << answer.error().message;
      expect_same_answer(*answer, *expected, 0);
    }
    const auto failed_one = other.get();
    const std::string needs = needs_long ? "a long answer" : "a large picture";
    ASSERT_FALSE(failed_one) << needs;
    expect_no_memory(failed_one.error(), needs);
    // The session goes on: with a shorter answer in as little memory, or with more memory.
    if (!needs_long) {
      EXPECT_GT(set_faults({}).failures, 0);
    }
    const auto next = ask(failing, options);
    ASSERT_TRUE(next) << next.error().message;
    expect_same_answer(*next, needs_long ? *expected : *expected_of_large, 0);
  }
}

}  // namespace
}  // namespace fovea
