// SPDX-License-Identifier: Apache-2.0
// How the tower works rather than what it computes: chunks, threads, formats, memory.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/activation.h"
#include "ops/attention/attention.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/test_plain_keys.h"
#include "vision/test_towers.h"
#include "vision/vision.h"

namespace fovea {
namespace {

using test::parts_of;

TEST(TowerWork, TheSameBitsForAnyNumberOfThreads) {
  const Tower tower = test::random_tower({.depth = 2, .taps = {1}});
  const Size canvas{32 * 7, 32 * 5};
  const Patches glance = test::random_patches(test::cover(canvas, 1), canvas);
  const Patches look = test::random_patches(test::cover(canvas, 0), canvas, 7);
  std::vector<std::vector<float>> expected[2];
  for (const int count : {1, 2, 3}) {
    Threads threads(count);
    TowerMemory memory;
    const auto first = parts_of(*tower.encode(threads, glance, canvas, memory));
    const auto second = parts_of(*tower.encode(threads, look, canvas, memory, {.size_bias = true}));
    if (count == 1) {
      expected[0] = first;
      expected[1] = second;
    }
    EXPECT_EQ(first, expected[0]) << count << " threads";
    EXPECT_EQ(second, expected[1]) << count << " threads";
  }
}

// The equations of the tower one after the other, each for all patches at once, by the references.
class PlainTower {
 public:
  PlainTower(const VisionConfig& config, const test::StoredTensors& tensors)
      : config_(config), tensors_(tensors) {}

  std::vector<std::vector<float>> encode(const Patches& patches, Size canvas) const {
    const std::vector<float> values(patches.f32.begin(), patches.f32.end());
    std::vector<float> x = linear("patch_embed.proj", values, kPatchValues);
    add_positions_reference(patches.places, canvas, at("pos_embed.weight").data(),
                            config_.position_grid_side, config_.hidden_size, x.data());
    const RotaryAngles angles =
        rotary_angles_reference(patches.places, config_.head_dim, config_.rope_theta);
    std::vector<std::vector<float>> parts(1);
    for (int i = 0; i < config_.depth; ++i) {
      const std::string block = "blocks." + std::to_string(i);
      add(x, attention_of(block, norm(block + ".norm1", x), angles));
      std::vector<float> wide =
          linear(block + ".mlp.linear_fc1", norm(block + ".norm2", x), config_.hidden_size);
      gelu_tanh_reference(wide.data(), static_cast<int64_t>(wide.size()));
      add(x, linear(block + ".mlp.linear_fc2", wide, config_.intermediate_size));
      for (const DeepstackTap& tap : config_.deepstack_taps)
        if (tap.layer == i)
          parts.push_back(merged("deepstack_merger_list." + std::to_string(tap.merger), x));
    }
    parts[0] = merged("merger", x);
    return parts;
  }

 private:
  const std::vector<float>& at(const std::string& name) const { return tensors_.at(name).values; }

  std::vector<float> linear(const std::string& name, const std::vector<float>& x,
                            int64_t in) const {
    const auto out = static_cast<int64_t>(at(name + ".bias").size());
    const auto rows = static_cast<int64_t>(x.size()) / in;
    const Matrix weights =
        Matrix::in_place(out, in, {WeightSource::Type::kF32, at(name + ".weight").data()});
    std::vector<float> y(static_cast<size_t>(rows * out), NAN);
    const Product product{.weights = &weights, .bias = at(name + ".bias").data(), .y = y.data()};
    matmul_reference(x.data(), in, rows, {&product, 1});
    return y;
  }
  std::vector<float> norm(const std::string& name, const std::vector<float>& x) const {
    const auto cols = static_cast<int64_t>(at(name + ".weight").size());
    std::vector<float> y(x.size(), NAN);
    layer_norm_reference(x.data(), static_cast<int64_t>(x.size()) / cols, cols,
                         at(name + ".weight").data(), at(name + ".bias").data(), 1e-6f, y.data());
    return y;
  }
  std::vector<float> attention_of(const std::string& block, const std::vector<float>& x,
                                  const RotaryAngles& angles) const {
    const int64_t hidden = config_.hidden_size;
    const auto rows = static_cast<int64_t>(x.size()) / hidden;
    std::vector<float> qkv = linear(block + ".attn.qkv", x, hidden);
    for (float* part : {qkv.data(), qkv.data() + hidden})
      rotate_reference(part, 3 * hidden, rows, config_.num_heads, config_.head_dim,
                       angles.cos.data(), angles.sin.data());
    PlainKeys kv(config_.num_heads, config_.head_dim);
    kv.append(qkv.data() + hidden, 3 * hidden, qkv.data() + 2 * hidden, 3 * hidden, rows);
    const AttentionParams params{.heads = config_.num_heads,
                                 .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim))};
    std::vector<float> out(x.size(), NAN);
    attention_reference(qkv.data(), 3 * hidden, rows, kv.view(), params, out.data(), hidden);
    return linear(block + ".attn.proj", out, hidden);
  }
  std::vector<float> merged(const std::string& name, const std::vector<float>& x) const {
    std::vector<float> wide =
        linear(name + ".linear_fc1", norm(name + ".norm", x), config_.merged_size());
    gelu_reference(wide.data(), static_cast<int64_t>(wide.size()));
    return linear(name + ".linear_fc2", wide, config_.merged_size());
  }
  static void add(std::vector<float>& x, const std::vector<float>& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const VisionConfig& config_;
  const test::StoredTensors& tensors_;
};

// Three chunks, or a part of one: a chunk that is left out, done twice or in the wrong place shows.
TEST(TowerWork, ChunksFitTogetherToWhatTheEquationsGiveAtOnce) {
  const VisionConfig config =
      test::config_of({.depth = 2, .heads = 2, .head_dim = 4, .intermediate = 20, .out = 5});
  const test::StoredTensors tensors = test::random_tensors(config, 3);
  const Tower tower = test::tower_of(config, tensors);
  for (const Size canvas : {Size{32 * 5, 32 * 3}, Size{32 * 37, 32 * 15}}) {
    std::vector<Cell> cells = test::cover(canvas, 1);
    const std::vector<Cell> fine = test::cover(canvas, 0);
    cells.insert(cells.end(), fine.begin(), fine.begin() + static_cast<long>(fine.size() * 3 / 4));
    const Patches patches = test::random_patches(cells, canvas);
    Threads threads(2);
    TowerMemory memory;
    const auto parts = parts_of(*tower.encode(threads, patches, canvas, memory));
    const auto expected = PlainTower(config, tensors).encode(patches, canvas);
    ASSERT_EQ(parts.size(), expected.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_EQ(parts[i].size(), expected[i].size());
      // Sums in f32 against f64.
      EXPECT_LE(test::relative_difference(parts[i], expected[i], expected[i].size()), 2e-5)
          << patches.count << " patches, part " << i;
    }
  }
}

// 4,096 patches of the 2B model, whose keys and values take 32 MiB a block.
TEST(TowerWork, MemoryForAFullImageIsModest) {
  VisionConfig config;
  config.hidden_size = 1024;
  config.intermediate_size = 4096;
  config.num_heads = 16;
  config.head_dim = 64;
  const TowerWork work(config, 4096);
  const size_t values =
      work.hidden.size() + work.queries.size() + work.narrow.size() + work.wide.size();
  const size_t angles = size_t{4096} * 64;
  const size_t keys_and_values = size_t{2} * 4096 * 1024;
  EXPECT_EQ(tower_work_bytes(config, 4096), (values + angles + keys_and_values) * sizeof(float));
  EXPECT_LE(tower_work_bytes(config, 4096), size_t{90} << 20);
  EXPECT_EQ(tower_work_bytes(config, 0), 0u);
}

double worst_cosine(const std::vector<float>& values, const std::vector<float>& expected,
                    size_t width) {
  double worst = 1;
  for (size_t begin = 0; begin < expected.size(); begin += width) {
    double dot = 0;
    double a = 0;
    double b = 0;
    for (size_t i = begin; i < begin + width; ++i) {
      dot += double{values[i]} * expected[i];
      a += double{values[i]} * values[i];
      b += double{expected[i]} * expected[i];
    }
    worst = std::min(worst, dot / std::sqrt(a * b));
  }
  return worst;
}

TEST(TowerWork, SmallerFormatsStayCloseToF32) {
  const VisionConfig config = test::config_of({.depth = 3,
                                               .heads = 4,
                                               .head_dim = 32,
                                               .intermediate = 256,
                                               .table_side = 8,
                                               .taps = {0, 1},
                                               .out = 96});
  const test::StoredTensors tensors = test::random_tensors(config, 11);
  const Size canvas{32 * 4, 32 * 3};
  const Patches patches = test::random_patches(test::cover(canvas, 0), canvas);
  Threads threads(2);
  const auto encode = [&](WeightFormat format) {
    const Tower tower = test::tower_of(config, tensors, format);
    TowerMemory memory;
    return parts_of(*tower.encode(threads, patches, canvas, memory));
  };
  const auto f32 = encode(WeightFormat::kF32);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8}) {
    const auto parts = encode(format);
    for (size_t i = 0; i < parts.size(); ++i) {
      // Rounding of bf16 is 2^-9 of a value, of int8 about 1 % of a typical one; both average out.
      const double cosine = worst_cosine(parts[i], f32[i], 96);
      EXPECT_GE(cosine, 0.999) << weight_format_name(format) << ", part " << i;
      EXPECT_LT(cosine, 1) << "the format is not used";
    }
  }
}

}  // namespace
}  // namespace fovea
