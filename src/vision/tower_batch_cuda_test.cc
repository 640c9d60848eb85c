// SPDX-License-Identifier: Apache-2.0
// Patches of several images in one pass of the tower on a GPU, against each image alone.

#include "vision/test_tower_cuda.h"

namespace fovea {
namespace {

using test::expect_near;
using test::kOtherOrder;
using test::Parts;
using test::parts_of;
using test::Scene;
using test::small_scene;

class TowerBatchCuda : public test::TowerCudaTest {};

// Patches of several images, one after the other.
struct Together {
  std::vector<const Patches*> patches;
  std::vector<TowerRequest> requests;
};

Result<std::vector<VisualTokens>> run_together(CudaAccelerator& device, CudaTower& tower,
                                               const Together& all) {
  const CudaAccelerator::Lock lock(device);
  std::vector<bf16> values;
  std::vector<PatchPlace> places;
  for (const Patches* patches : all.patches) {
    const std::vector<bf16> some = test::short_values(*patches);
    values.insert(values.end(), some.begin(), some.end());
    places.insert(places.end(), patches->places.begin(), patches->places.end());
  }
  const auto input = tower.input(static_cast<int>(places.size()));
  if (!input) return input.error();
  device.stream().upload(input->patches, values.data(), values.size());
  device.stream().upload(input->places, places.data(), places.size());
  auto tokens = tower.run(all.requests, {});
  if (auto done = device.stream().wait(); !done) return done.error();
  return tokens;
}

TEST_P(TowerBatchCuda, ImagesOfOnePassAreThoseAlone) {
  const Scene scene = small_scene();
  const auto tower = tower_itself(scene);
  const std::vector<Size> canvases = {{224, 96}, {32, 32}, {64, 352}};
  std::vector<Patches> glances;
  std::vector<Parts> alone;
  Together all;
  for (size_t i = 0; i < canvases.size(); ++i)
    glances.push_back(test::random_patches(test::cover(canvases[i], static_cast<int>(i)),
                                           canvases[i], 40 + static_cast<uint32_t>(i)));
  for (size_t i = 0; i < canvases.size(); ++i) {
    TowerMemory memory;
    alone.push_back(parts_of(*tower->download(
        *tower->encode(threads_, glances[i], canvases[i], memory, {.keep = false}))));
    all.patches.push_back(&glances[i]);
    all.requests.push_back({.count = glances[i].count, .canvas = canvases[i]});
  }
  for (int time = 0; time < 3; ++time) {
    auto tokens = run_together(*device_, *tower, all);
    ASSERT_TRUE(tokens) << tokens.error().message;
    ASSERT_EQ(tokens->size(), 3u);
    for (size_t i = 0; i < alone.size(); ++i)
      expect_near(alone[i], parts_of(*tower->download(std::move((*tokens)[i]))), kOtherOrder,
                  "image " + std::to_string(i) + ", time " + std::to_string(time));
  }
}

// Images of one size that are too long for small blocks of attention.
TEST_P(TowerBatchCuda, LongImagesOfOnePassAreThoseOfTheCpu) {
  const Size canvas = kEmulated ? Size{96, 64} : Size{384, 352};  // 24 patches, 528
  const Scene scene = test::scene_of(
      {.depth = 2, .heads = 2, .head_dim = 64, .intermediate = 40, .taps = {1}, .out = 40}, 0,
      canvas, 1, 78);
  const Tower cpu = on_cpu(scene);
  const auto tower = tower_itself(scene);
  for (const size_t images : {1, 3}) {
    std::vector<Patches> patches;
    std::vector<Parts> wanted;
    Together all;
    for (uint32_t i = 0; i < images; ++i)
      patches.push_back(test::random_patches(test::cover(canvas, 0), canvas, 50 + i));
    for (const Patches& one : patches) {
      TowerMemory memory;
      wanted.push_back(encode(cpu, one, canvas, memory, {.keep = false}));
      all.patches.push_back(&one);
      all.requests.push_back({.count = one.count, .canvas = canvas});
    }
    for (int time = 0; time < 3; ++time) {
      auto tokens = run_together(*device_, *tower, all);
      ASSERT_TRUE(tokens) << tokens.error().message;
      for (size_t i = 0; i < images; ++i)
        expect_near(wanted[i], parts_of(*tower->download(std::move((*tokens)[i]))), test::kBf16,
                    "image " + std::to_string(i) + ", time " + std::to_string(time));
    }
  }
}

// Where nothing is kept, one kernel may rotate and attend; a bias of sizes is seen by both.
TEST_P(TowerBatchCuda, TurningAndAttendingInOneKernelIsThatInTwo) {
  if (!kEmulated && device_->capability() < 80) GTEST_SKIP() << "no tensor cores for bf16";
  const Scene scene = small_scene();
  const auto two = tower_itself(scene);
  const auto one = tower_itself(scene);
  one->use_tensor_cores();
  for (const bool size_bias : {false, true}) {
    const EncodeOptions options{.keep = false, .size_bias = size_bias};
    const auto tokens_of = [&](CudaTower& tower) {
      TowerMemory memory;
      return parts_of(
          *tower.download(*tower.encode(threads_, scene.glance, scene.canvas, memory, options)));
    };
    const Parts wanted = tokens_of(*two);
    for (int time = 0; time < 3; ++time)
      expect_near(wanted, tokens_of(*one), kOtherOrder, "time " + std::to_string(time));
  }
  const Patches other = test::random_patches(test::cover({64, 352}, 1), {64, 352}, 43);
  const Together all{{&scene.glance, &other},
                     {{.count = scene.glance.count, .canvas = scene.canvas},
                      {.count = other.count, .canvas = {64, 352}}}};
  auto wanted = run_together(*device_, *two, all);
  auto got = run_together(*device_, *one, all);
  ASSERT_TRUE(wanted && got);
  for (size_t i = 0; i < 2; ++i)
    expect_near(parts_of(*two->download(std::move((*wanted)[i]))),
                parts_of(*one->download(std::move((*got)[i]))), kOtherOrder,
                "image " + std::to_string(i));
}

TEST_P(TowerBatchCuda, LooksOfOnePassSeeTheirOwnMemory) {
  const Scene scene = small_scene();
  const auto tower = tower_itself(scene);
  const std::vector<Size> canvases = {{224, 96}, {160, 160}, {32, 416}};
  std::vector<TowerMemory> memories(canvases.size());
  std::vector<Patches> looks;
  std::vector<DeviceMemory<float>> biases(canvases.size());
  std::vector<Parts> alone;
  Together all;
  for (size_t i = 0; i < canvases.size(); ++i)
    looks.push_back(test::random_patches(test::cover(canvases[i], static_cast<int>(i) % 2),
                                         canvases[i], 60 + static_cast<uint32_t>(i)));
  for (size_t i = 0; i < canvases.size(); ++i) {
    const EncodeOptions options{.keep = true, .size_bias = i == 1};
    const Patches glance = test::random_patches(test::cover(canvases[i], 1), canvases[i],
                                                50 + static_cast<uint32_t>(i));
    for (const Patches* patches : {&glance, static_cast<const Patches*>(&looks[i])}) {
      auto tokens = tower->encode(threads_, *patches, canvases[i], memories[i], options);
      ASSERT_TRUE(tokens);
      if (patches != &glance) alone.push_back(parts_of(*tower->download(std::move(*tokens))));
    }
    TowerRequest request{.count = looks[i].count, .canvas = canvases[i]};
    // The look is in it already, and written once more.
    request.memory = static_cast<TowerKeyValues*>(memories[i].on_device.get());
    request.kept = glance.count;
    if (options.size_bias) {
      std::vector<float> bias;
      for (const Patches* patches : {&glance, static_cast<const Patches*>(&looks[i])})
        for (const PatchPlace& place : patches->places)
          bias.push_back(static_cast<float>(place.level) * std::log(4.0f));
      biases[i] = on_device(bias);
      request.key_bias = biases[i].data();
    }
    all.patches.push_back(&looks[i]);
    all.requests.push_back(request);
  }
  for (int time = 0; time < 3; ++time) {
    auto tokens = run_together(*device_, *tower, all);
    ASSERT_TRUE(tokens) << tokens.error().message;
    for (size_t i = 0; i < alone.size(); ++i)
      expect_near(alone[i], parts_of(*tower->download(std::move((*tokens)[i]))), kOtherOrder,
                  "look " + std::to_string(i) + ", time " + std::to_string(time));
  }
}

INSTANTIATE_TEST_SUITE_P(kernels, TowerBatchCuda, testing::ValuesIn(kernel_choices()),
                         kernel_choice_name);

}  // namespace
}  // namespace fovea
