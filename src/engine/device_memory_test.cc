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
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/emulated_memory.h"
#include "engine/model.h"
#include "engine/scheduler.h"
#include "engine/test_ask.h"

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

// What is asked in a sweep.
struct Asked {
  const char* name;
  AskOptions options;

  friend void PrintTo(const Asked& asked, std::ostream* out) { *out << asked.name; }
};

std::vector<Asked> all_asked() {
  AskOptions few;
  few.budget_tokens = 5;
  few.max_tokens = 3;
  few.ignore_end = true;
  AskOptions crops = few;
  crops.look = "crops";
  crops.attention = true;
  AskOptions drawn = few;
  drawn.plan = "cortical";
  drawn.temperature = 1;
  drawn.repetition_penalty = 1.5;
  AskOptions listed = few;
  listed.likely_tokens = 3;
  listed.looks = 2;
  listed.sure = 1;
  return {{"a_look", few}, {"crops", crops}, {"drawn", drawn}, {"two_looks_listed", listed}};
}

// tools/low_memory asks for every allocation.
bool is_whole() { return std::getenv("FOVEA_EVERY_ALLOCATION") != nullptr; }

// Which allocations fail: each of the first `count`, once by itself and once with all that follow
// it; or `few` of them.
std::vector<MemoryFaults> faults_of(int64_t count, int64_t few) {
  std::vector<MemoryFaults> all;
  all.reserve(static_cast<size_t>(2 * count));
  const int64_t step = is_whole() ? 1 : std::max<int64_t>(1, 2 * count / few) | 1;  // of both kinds
  for (int64_t i = 0; i < 2 * count; i += step)
    all.push_back({.before = i / 2, .once = i % 2 == 0});
  return all;
}
std::string text_of(const MemoryFaults& faults) {
  return "allocation " + std::to_string(faults.before) + (faults.once ? "" : " and all later");
}

Result<Answer> ask_of(const Asked& asked, Session& session) {
  return session.ask("What is the red one?", asked.options);
}

class DeviceMemorySweep : public DeviceMemoryTest {
 protected:
  // A model as loaded, its session, and what is answered where nothing fails.
  struct Trial {
    std::shared_ptr<const Model> model;
    std::optional<Session> session;
  };
  static Trial fresh() {
    Trial trial;
    const auto model = load();
    EXPECT_TRUE(model) << model.error().message;
    trial.model = *model;
    trial.session = session_of(trial.model);
    EXPECT_TRUE(trial.session->add(picture({96, 64})));
    return trial;
  }
  static Answer answer_of(const Asked& asked) {
    Trial trial = fresh();
    auto answer = ask_of(asked, *trial.session);
    EXPECT_TRUE(answer) << answer.error().message;
    return std::move(*answer);
  }
};

TEST_F(DeviceMemorySweep, LoadingEndsInAnErrorAndTheNextOneLoads) {
  const Asked asked = all_asked().front();
  const Answer expected = answer_of(asked);
  set_faults({});
  ASSERT_TRUE(load());
  const MemoryTaken whole = set_faults({});
  EXPECT_GT(whole.allocations, 40);
  for (const MemoryFaults& faults : faults_of(whole.allocations, 2 * whole.allocations)) {
    const std::string where = text_of(faults);
    set_faults(faults);
    const auto model = load();
    const MemoryTaken taken = set_faults({});
    EXPECT_GT(taken.failures, 0) << where;
    EXPECT_EQ(taken.held, whole.held) << where << ": memory is lost";
    ASSERT_FALSE(model) << where;
    expect_no_memory(model.error(), where);
    if (is_whole()) expect_same_answer(answer_of(asked), expected, 0);
  }
  expect_same_answer(answer_of(asked), expected, 0);
}

class DeviceMemorySweepOf : public DeviceMemorySweep, public testing::WithParamInterface<Asked> {};

INSTANTIATE_TEST_SUITE_P(asked, DeviceMemorySweepOf, testing::ValuesIn(all_asked()),
                         [](const auto& asked) { return std::string(asked.param.name); });

// The first question that a model is asked makes all memory that later ones find.
TEST_P(DeviceMemorySweepOf, AQuestionEndsInAnErrorAndTheNextIsAnswered) {
  const Asked& asked = GetParam();
  const Answer expected = answer_of(asked);
  const int64_t held = set_faults({}).held;
  int64_t allocations = 0;
  {
    Trial trial = fresh();
    set_faults({});
    ASSERT_TRUE(ask_of(asked, *trial.session));
    allocations = set_faults({}).allocations;
  }
  EXPECT_GT(allocations, 20);
  for (const MemoryFaults& faults : faults_of(allocations, 3)) {
    const std::string where = text_of(faults);
    {
      Trial trial = fresh();
      set_faults(faults);
      const auto answer = ask_of(asked, *trial.session);
      EXPECT_GT(set_faults({}).failures, 0) << where;
      EXPECT_FALSE(answer) << where;
      if (!answer) expect_no_memory(answer.error(), where);
      const auto next = ask_of(asked, *trial.session);
      ASSERT_TRUE(next) << where << ": " << next.error().message;
      expect_same_answer(*next, expected, 0);
    }
    EXPECT_EQ(set_faults({}).held, held) << where << ": memory is lost";
  }
}

}  // namespace
}  // namespace fovea
