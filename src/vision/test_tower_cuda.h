// SPDX-License-Identifier: Apache-2.0
// What tests of the tower on a GPU share: random towers with an image each, on both devices.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/test_accelerator.h"
#include "vision/test_towers.h"
#include "vision/tower_cuda.h"

namespace fovea::test {

using Parts = std::vector<std::vector<float>>;

// The CPU rounds weights alone to bf16, the GPU also what goes into products and attention, each
// time by up to 2^-9 = 0.2 %. A dozen such roundings in a row, independent of each other, add up to
// under 1 %; a wrong place, level, norm or activation is off by far more than 2 %.
inline constexpr double kBf16 = 2e-2;
inline constexpr double kBf16Cosine = 0.9995;
// Another number of rows may take another kernel, which sums in another order: now and then that
// changes one of those roundings.
inline constexpr double kOtherOrder = 1e-2;

inline void expect_near(const Parts& expected, const Parts& actual, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(relative_error(expected[i], actual[i]), tolerance) << what << ", part " << i;
    EXPECT_GE(cosine_of(expected[i], actual[i]), kBf16Cosine) << what << ", part " << i;
  }
}

// A tower and an image with a glance and a look.
struct Scene {
  VisionConfig config;
  StoredTensors tensors;
  Size canvas;
  Patches glance;
  Patches look;

  TensorSource source() const { return source_of(tensors, WeightFormat::kBf16); }
};

inline void add_levels(int levels, std::mt19937& random, Scene& scene) {
  scene.config.levels = levels;
  if (levels == 0) return;
  const auto width = static_cast<size_t>(scene.config.hidden_size);
  std::normal_distribution<float> normal(0, 0.5f);
  StoredTensor table{{levels, scene.config.hidden_size},
                     std::vector<float>(static_cast<size_t>(levels) * width)};
  for (size_t i = width; i < table.values.size(); ++i) table.values[i] = normal(random);
  scene.tensors["level_embedding"] = table;
}

inline Scene scene_of(const TowerSize& size, int levels, Size canvas, int level, uint32_t seed) {
  std::mt19937 random(seed);
  Scene scene;
  scene.config = config_of(size);
  scene.tensors = random_tensors(scene.config, seed);
  add_levels(levels, random, scene);
  scene.canvas = canvas;
  scene.glance = random_patches(cover(canvas, level), canvas, seed + 1);
  std::vector<Cell> fine;
  for (int finer = level - 1; finer >= 0; --finer)
    for (const Cell& cell : cover(canvas, finer))
      if (random() % 3 == 0 && fine.size() < 6) fine.push_back(cell);
  if (fine.empty()) fine.push_back({0, 0, 0});
  scene.look = random_patches(fine, canvas, seed + 2);
  return scene;
}

// Sizes are multiples of 8; grids are odd, tall, wide, and smaller than one cell of the glance.
inline Scene random_scene(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](const std::vector<int>& of) { return of[random() % of.size()]; };
  TowerSize size;
  size.depth = pick({1, 2, 3});
  size.heads = pick({1, 2, 3});
  size.head_dim = pick({8, 16, 24, 64});
  size.intermediate = pick({8, 40, 136});
  size.table_side = pick({1, 2, 5, 7});
  size.out = pick({8, 24, 72});
  size.taps.clear();
  for (int layer = 0; layer < size.depth; ++layer)
    if (random() % 2 == 0) size.taps.push_back(layer);
  const std::vector<Size> canvases = {{32, 32}, {32, 352}, {384, 32}, {96, 160}, {224, 96}};
  const int levels = pick({0, 2, 4});
  return scene_of(size, levels, canvases[random() % canvases.size()], pick({1, 2}), seed);
}

inline Scene small_scene() {
  return scene_of(
      {.depth = 2, .heads = 2, .head_dim = 16, .intermediate = 40, .taps = {1}, .out = 40}, 2,
      {224, 96}, 1, 77);
}

class TowerCudaTest : public AcceleratorTest {
 protected:
  Tower on_cpu(const Scene& scene) { return *Tower::build(scene.config, scene.source()); }
  Tower on_gpu(const Scene& scene) { return *Tower::build(scene.config, scene.source(), device_); }
  std::shared_ptr<CudaTower> tower_itself(const Scene& scene) {
    return *CudaTower::make(device_, scene.config,
                            *take_tower_weights(scene.config, scene.source()));
  }

  Parts encode(const Tower& tower, const Patches& patches, Size canvas, TowerMemory& memory,
               const EncodeOptions& options = {}) {
    VisualTokens tokens = *tower.encode(threads_, patches, canvas, memory, options);
    EXPECT_EQ(tokens.count, patches.count / kPatchesPerCell);
    return parts_of(*tower.download(std::move(tokens)));
  }

  // The hidden state after each block, then all that came out.
  Parts trace(const Tower& tower, const Patches& patches, Size canvas, TowerMemory& memory,
              EncodeOptions options) {
    Parts states;
    options.on_block = [&](int block, const float* hidden) {
      EXPECT_EQ(block, static_cast<int>(states.size()));
      states.emplace_back(hidden, hidden + int64_t{patches.count} * tower.config().hidden_size);
    };
    for (auto& part : encode(tower, patches, canvas, memory, options))
      states.push_back(std::move(part));
    return states;
  }

  Threads threads_{1};
};

inline std::vector<bf16> short_values(const Patches& patches) {
  std::vector<bf16> values;
  for (const float value : patches.f32) values.push_back(to_bf16(value));
  return values;
}

}  // namespace fovea::test
