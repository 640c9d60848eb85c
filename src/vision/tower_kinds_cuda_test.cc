// SPDX-License-Identifier: Apache-2.0
// The tower on a GPU where patches attend by kinds, against the CPU's.
#include "vision/test_tower_cuda.h"
#include "vision/tower_cuda.h"

namespace fovea {
namespace {

using test::expect_near;
using test::kBf16;
using test::Parts;
using test::Scene;

class TowerKindsCuda : public test::TowerCudaTest {
 protected:
  void SetUp() override {
    test::TowerCudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!kEmulated && !on_gpu(test::small_scene()).has_kinds({AttentionKind::kStrided, 0}))
      GTEST_SKIP() << "this device attends densely alone";
  }
};

// 6 blocks of 8x8 patches at level 0, some of them not whole, then cells of two levels.
Scene blocks_scene() {
  return test::scene_of(
      {.depth = 2, .heads = 2, .head_dim = 16, .intermediate = 40, .taps = {0}, .out = 40}, 2,
      {352, 224}, 0, 31);
}
Scene mixed_scene() {
  Scene scene = test::small_scene();
  const std::vector<Cell> cells = {{1, 1, 2}, {0, 2, 1}, {1, 0, 0}, {0, 0, 6}, {0, 2, 0},
                                   {1, 0, 3}, {0, 1, 5}, {1, 1, 0}, {0, 0, 1}};
  scene.glance = test::random_patches(cells, scene.canvas, 8);
  return scene;
}

TEST_P(TowerKindsCuda, EachKindGivesTheStatesAndTokensOfTheCpu) {
  for (const bool mixed : {false, true}) {
    const Scene scene = mixed ? mixed_scene() : blocks_scene();
    const Tower cpu = on_cpu(scene);
    const Tower gpu = on_gpu(scene);
    for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower)) {
      // All blocks but one, or the own one alone: what is chosen does not hang on a rounding.
      for (const double share : row.by_blocks ? std::vector<double>{0.01, 1} : std::vector{0.0}) {
        const EncodeOptions options{
            .keep = false, .attention = {row.kind, share}, .size_bias = mixed};
        if (!gpu.has_kinds(options.attention)) continue;
        TowerMemory there;
        TowerMemory here;
        expect_near(trace(cpu, scene.glance, scene.canvas, there, options),
                    trace(gpu, scene.glance, scene.canvas, here, options), kBf16, row.name);
      }
    }
  }
}

TEST_P(TowerKindsCuda, ALookAttendsDenselyToWhatAKindHasLeft) {
  const Scene scene = mixed_scene();
  const Tower cpu = on_cpu(scene);
  const Tower gpu = on_gpu(scene);
  for (const bool size_bias : {false, true}) {
    const EncodeOptions options{
        .keep = true,
        .attention = *parse_attention("strided,hierarchical:0.01", AttentionPlace::kTower, 2),
        .size_bias = size_bias};
    TowerMemory there;
    TowerMemory here;
    for (const Patches* patches : {&scene.glance, &scene.look})
      expect_near(trace(cpu, *patches, scene.canvas, there, options),
                  trace(gpu, *patches, scene.canvas, here, options), kBf16,
                  patches == &scene.glance ? "glance" : "look");
    EXPECT_EQ(here.levels, there.levels);
  }
}

TEST_P(TowerKindsCuda, KindsWithoutACudaFormAreNotTaken) {
  const Tower gpu = on_gpu(test::small_scene());
  EXPECT_TRUE(gpu.has_kinds(AttentionSchedule()));
  EXPECT_TRUE(gpu.has_kinds({AttentionKind::kHierarchical, 0}));
  EXPECT_FALSE(gpu.has_kinds({AttentionKind::kPerformer, 0}));
  EXPECT_FALSE(gpu.has_kinds({AttentionKind::kEight, 0}));
  EXPECT_FALSE(
      gpu.has_kinds(*parse_attention("hierarchical,level-sum", AttentionPlace::kTower, 2)));
}

// Kinds are not of the portable kernels, but where kernels are emulated.
INSTANTIATE_TEST_SUITE_P(kernels, TowerKindsCuda, testing::Values(kEmulated), kernel_choice_name);

}  // namespace
}  // namespace fovea
