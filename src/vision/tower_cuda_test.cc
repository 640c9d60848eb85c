// SPDX-License-Identifier: Apache-2.0
// The tower on a GPU against the CPU's, both with the same bf16 weights.
#include "vision/tower_cuda.h"

#include "vision/test_tower_cuda.h"

namespace fovea {
namespace {

using test::expect_near;
using test::kBf16;
using test::kOtherOrder;
using test::Parts;
using test::parts_of;
using test::Scene;
using test::small_scene;

class TowerCuda : public test::TowerCudaTest {};

TEST_P(TowerCuda, RandomTowersGiveTheStatesAndTokensOfTheCpu) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Scene scene = test::random_scene(seed);
    const Tower cpu = on_cpu(scene);
    const Tower gpu = on_gpu(scene);
    const std::string what = "seed " + std::to_string(seed);
    const EncodeOptions options{.keep = true, .size_bias = seed % 2 == 1};
    TowerMemory there;
    TowerMemory here;
    for (const Patches* patches : {&scene.glance, &scene.look}) {
      const Parts expected = trace(cpu, *patches, scene.canvas, there, options);
      ASSERT_EQ(expected.size(),
                static_cast<size_t>(scene.config.depth) + 1 + scene.config.deepstack_taps.size());
      expect_near(expected, trace(gpu, *patches, scene.canvas, here, options), kBf16,
                  what + (patches == &scene.glance ? ", glance" : ", look"));
      EXPECT_EQ(here.patches(), there.patches());
    }
    EXPECT_GT(here.bytes(), 0u);
    EXPECT_TRUE(here.blocks.empty()) << "keys and values are the device's";
  }
}

TEST_P(TowerCuda, AWholeCanvasIsThatOfTheCpu) {
  for (const Size canvas : {Size{32, 480}, Size{416, 32}, Size{288, 160}}) {
    const Scene scene = test::scene_of({.depth = 2,
                                        .heads = 3,
                                        .head_dim = 16,
                                        .intermediate = 64,
                                        .table_side = 6,
                                        .taps = {0, 1},
                                        .out = 32},
                                       0, canvas, 0, 5);
    const Tower cpu = on_cpu(scene);
    const Tower gpu = on_gpu(scene);
    TowerMemory there;
    TowerMemory here;
    const EncodeOptions once{.keep = false};
    expect_near(trace(cpu, scene.glance, canvas, there, once),
                trace(gpu, scene.glance, canvas, here, once), kBf16, "whole canvas");
    EXPECT_EQ(here.patches(), 0);
    EXPECT_EQ(here.bytes(), 0u);
  }
}

TEST_P(TowerCuda, ALookSeesTheGlanceInMemoryWhetherItIsKeptOrNot) {
  const Scene scene = small_scene();
  const Tower gpu = on_gpu(scene);
  TowerMemory memory;
  encode(gpu, scene.glance, scene.canvas, memory);
  const Parts passing = encode(gpu, scene.look, scene.canvas, memory, {.keep = false});
  EXPECT_EQ(memory.patches(), scene.glance.count);
  EXPECT_EQ(passing, encode(gpu, scene.look, scene.canvas, memory));
  EXPECT_EQ(memory.patches(), scene.glance.count + scene.look.count);
  TowerMemory none;
  const Parts alone = encode(gpu, scene.look, scene.canvas, none, {.keep = false});
  for (size_t i = 0; i < alone.size(); ++i)
    EXPECT_GT(relative_error(alone[i], passing[i]), 3 * kBf16) << "the glance matters";
}

TEST_P(TowerCuda, TruncatedMemoryEqualsFreshMemory) {
  const Scene scene = small_scene();
  const Tower gpu = on_gpu(scene);
  TowerMemory memory;
  encode(gpu, scene.glance, scene.canvas, memory);
  encode(gpu, scene.look, scene.canvas, memory);
  memory.truncate(scene.glance.count);
  const Patches other = test::random_patches({{0, 2, 2}, {0, 0, 1}}, scene.canvas, 5);
  const Parts reused = encode(gpu, other, scene.canvas, memory);
  TowerMemory fresh;
  encode(gpu, scene.glance, scene.canvas, fresh);
  EXPECT_EQ(reused, encode(gpu, other, scene.canvas, fresh));
  memory.truncate(0);
  TowerMemory empty;
  EXPECT_EQ(encode(gpu, other, scene.canvas, memory), encode(gpu, other, scene.canvas, empty));
}

TEST_P(TowerCuda, MemoryGrowsLookByLook) {
  const Scene scene = small_scene();
  const Tower cpu = on_cpu(scene);
  const Tower gpu = on_gpu(scene);
  TowerMemory there;
  TowerMemory here;
  const EncodeOptions options{.keep = true, .size_bias = true};
  expect_near(encode(cpu, scene.glance, scene.canvas, there, options),
              encode(gpu, scene.glance, scene.canvas, here, options), kBf16, "glance");
  size_t moved = 0;
  for (uint32_t i = 0; i < 7; ++i) {
    const size_t bytes = here.on_device->bytes();
    const int row = static_cast<int>(i % 3);
    const Patches look =
        test::random_patches({{0, row, 2}, {1, row / 2, 1}, {0, row, 6}}, scene.canvas, 100 + i);
    expect_near(encode(cpu, look, scene.canvas, there, options),
                encode(gpu, look, scene.canvas, here, options), kBf16, "look " + std::to_string(i));
    if (here.on_device->bytes() > bytes) ++moved;
  }
  EXPECT_GE(moved, 2u);
  EXPECT_LT(moved, 7u) << "it grows by more than one look";
}

// A graph is recorded the second time and replayed from then on.
TEST_P(TowerCuda, TheSameCallGivesTheSameBitsEachTime) {
  const Scene scene = small_scene();
  const Tower gpu = on_gpu(scene);
  TowerMemory memory;
  encode(gpu, scene.glance, scene.canvas, memory);
  const Parts traced = trace(gpu, scene.look, scene.canvas, memory, {.keep = false});
  const Parts tokens(traced.begin() + scene.config.depth, traced.end());
  std::vector<Parts> glances;
  for (int time = 0; time < 4; ++time) {
    TowerMemory fresh;
    glances.push_back(encode(gpu, scene.glance, scene.canvas, fresh));
    EXPECT_EQ(glances.back(), glances.front()) << "time " << time;
    EXPECT_EQ(tokens, encode(gpu, scene.look, scene.canvas, memory)) << "time " << time;
    memory.truncate(scene.glance.count);
    TowerMemory none;
    const Parts passing = encode(gpu, scene.glance, scene.canvas, none, {.keep = false});
    expect_near(glances.front(), passing, kOtherOrder, "nothing kept");
  }
}

TEST_P(TowerCuda, PatchesMayBeShort) {
  const Scene scene = small_scene();
  const auto tower = tower_itself(scene);
  const auto tokens_of = [&](const Patches& patches) {
    TowerMemory memory;
    return parts_of(*tower->download(*tower->encode(threads_, patches, scene.canvas, memory, {})));
  };
  Patches rounded;
  rounded.count = scene.look.count;
  rounded.format = PatchFormat::kBFloat16;
  rounded.places = scene.look.places;
  const std::vector<bf16> values = test::short_values(scene.look);
  rounded.bf16 = Buffer<uint16_t>(values.size());
  std::memcpy(rounded.bf16.data(), values.data(), values.size() * sizeof(bf16));
  EXPECT_EQ(tokens_of(rounded), tokens_of(scene.look));
}

// Wherever memory runs out, the call is an error that says so, and the next is as if it had not
// been.
TEST_P(TowerCuda, NoMemoryIsAnErrorAndNoMore) {
  if (!kEmulated) GTEST_SKIP() << "memory runs out when it should in an emulation alone";
  const Scene scene = test::scene_of(
      {.depth = 1, .heads = 1, .head_dim = 8, .intermediate = 8, .taps = {0}, .out = 8}, 0,
      {96, 64}, 1, 3);
  const EncodeOptions options{.keep = true, .size_bias = true};
  const auto fails = [&](const Patches& patches, bool after_glance, int allowed) {
    const Tower gpu = on_gpu(scene);
    TowerMemory memory;
    if (after_glance) encode(gpu, scene.glance, scene.canvas, memory, options);
    TowerMemory fresh;
    const int64_t before = memory.patches();
    limit_allocations(allowed);
    const auto tokens = gpu.encode(threads_, patches, scene.canvas, memory, options);
    limit_allocations(-1);
    if (tokens) return false;
    EXPECT_NE(tokens.error().message.find("memory"), std::string::npos) << tokens.error().message;
    EXPECT_EQ(memory.patches(), before);
    if (after_glance) encode(gpu, scene.glance, scene.canvas, fresh, options);
    EXPECT_EQ(encode(gpu, patches, scene.canvas, memory, options),
              encode(gpu, patches, scene.canvas, fresh, options))
        << "after " << allowed << " allocations";
    return true;
  };
  int glances = 0;
  while (fails(scene.glance, false, glances)) ++glances;
  EXPECT_GT(glances, 12);
  int looks = 0;
  while (fails(scene.look, true, looks)) ++looks;
  EXPECT_GT(looks, 2);
}

TEST_P(TowerCuda, SizesThatAGpuCannotTakeAreRefused) {
  const auto refusal = [&](const test::TowerSize& size) {
    const auto made = CudaTower::make(device_, test::config_of(size), {});
    EXPECT_FALSE(made);
    EXPECT_EQ(made.error().kind, Error::Kind::kBadInput);
    return made.error().message;
  };
  const test::TowerSize good{.heads = 2, .head_dim = 8, .intermediate = 40, .out = 16};
  const auto with = [&](auto member, int value) {
    test::TowerSize size = good;
    size.*member = value;
    return refusal(size);
  };
  using test::TowerSize;
  EXPECT_EQ(with(&TowerSize::out, 12),
            "a GPU cannot run this model: vision_config.out_hidden_size is 12, which is not a "
            "multiple of 8; use device cpu");
  EXPECT_NE(with(&TowerSize::intermediate, 36).find("intermediate_size is 36"), std::string::npos);
  EXPECT_NE(with(&TowerSize::head_dim, 12).find("num_heads is 12"), std::string::npos);
  EXPECT_NE(with(&TowerSize::head_dim, 136).find("at most 128"), std::string::npos);
  EXPECT_NE(with(&TowerSize::heads, 300).find("at most 2048"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(kernels, TowerCuda, testing::ValuesIn(kernel_choices()),
                         kernel_choice_name);

}  // namespace
}  // namespace fovea
