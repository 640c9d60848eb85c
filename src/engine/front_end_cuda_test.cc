// SPDX-License-Identifier: Apache-2.0
#include "engine/front_end_cuda.h"

#include <gtest/gtest.h>

#include <random>

#include "device/cuda/test_device.h"
#include "engine/front_end.h"

namespace fovea {
namespace {

// Blocks of colour and some noise: something to see at every level.
Image scene(Size size, unsigned seed) {
  std::mt19937 random(seed);
  Image image(size);
  for (int y = 0; y < size.height_px; ++y)
    for (int x = 0; x < size.width_px; ++x)
      for (int c = 0; c < 3; ++c) {
        const int block = (x / 48 * 7 + y / 40 * 5 + c * 3 + static_cast<int>(seed)) % 11 * 20;
        const int noise = (x / 100 + y / 60) % 2 * static_cast<int>(random() % 32);
        image.row(y)[3 * x + c] = static_cast<uint8_t>(block + noise);
      }
  return image;
}

Map random_map(Grid grid, unsigned seed) {
  std::mt19937 random(seed);
  Map map(grid);
  for (uint16_t& score : map.score) score = static_cast<uint16_t>(random());
  return map;
}

class FrontEndCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_shared<CudaAccelerator>();
    ASSERT_TRUE(device_->open({}));
    front_end_ = std::make_unique<CudaFrontEnd>(device_, nullptr);
  }

  // On both devices.
  Prepared prepared_by(DeviceFrontEnd& front_end, Image canvas) {
    const Size size = canvas.size;
    return *prepare(threads_, front_end, canvas, {.min_pixels = 1, .max_pixels = size.pixels()},
                    watch_);
  }

  std::shared_ptr<CudaAccelerator> device_;
  std::unique_ptr<CudaFrontEnd> front_end_;
  Stopwatch watch_;
  Threads threads_{1};
  std::shared_ptr<DeviceFrontEnd> cpu_ = *front_end_on(open_cpu(), nullptr, threads_);
};

void expect_near(const Map& map, const Map& expected) {
  ASSERT_EQ(map.grid, expected.grid);
  for (size_t i = 0; i < map.score.size(); ++i)
    ASSERT_LE(std::abs(map.score[i] - expected.score[i]), 1) << i;
}

TEST_F(FrontEndCuda, MeasuresWhatTheCpuMeasures) {
  for (const Size size : {Size{32, 32}, Size{320, 192}, Size{96, 512}}) {
    const Image canvas = scene(size, 3);
    const Pyramid pyramid = build_pyramid(threads_, canvas);
    const Prepared prepared = prepared_by(*front_end_, canvas);
    const auto measures = front_end_->measures(*prepared.on_device);
    ASSERT_TRUE(measures);
    const Relevance expected = measure_picture(threads_, pyramid);
    expect_near(measures->relevance.information, expected.information);
    expect_near(measures->relevance.salience, expected.salience);
    EXPECT_EQ(measures->detail.lost, measure_detail(threads_, pyramid).lost);
  }
}

TEST_F(FrontEndCuda, ChoosesWhatTheCpuChooses) {
  const Size size{320, 256};
  const Image canvas = scene(size, 8);
  const Prepared there = prepared_by(*front_end_, canvas);
  const Prepared here = prepared_by(*cpu_, canvas);
  for (const PlanMaker& maker : plan_makers()) {
    for (const bool asked : {false, true}) {
      SeeOptions options;
      options.plan = maker.name();
      options.budget_tokens = 20;
      if (asked) options.coupling = random_map({4, 5}, 6);
      if (asked) options.fixations = {{100, 90}};
      const auto settings = settings_of(options);
      ASSERT_TRUE(settings);
      Stopwatch watch;
      const auto choice = choose(*front_end_, there, *settings, watch);
      const auto expected = choose(*cpu_, here, *settings, watch);
      ASSERT_TRUE(choice && expected) << maker.name();
      expect_near(choice->relevance.relevance, expected->relevance.relevance);
      EXPECT_EQ(choice->relevance.coupling.empty(), expected->relevance.coupling.empty());
      EXPECT_EQ(choice->plan.cells, expected->plan.cells) << maker.name() << asked;
      EXPECT_EQ(choice->fixations, expected->fixations) << maker.name() << asked;
      const auto bytes = front_end_->sample(*there.on_device, choice->plan.cells);
      ASSERT_TRUE(bytes);
      EXPECT_EQ(*bytes, int64_t{choice->plan.tokens()} * kPatchesPerCell * kPatchValues);
    }
  }
}

TEST_F(FrontEndCuda, RefusesWhatTheCpuRefuses) {
  const Image canvas = scene({64, 64}, 1);
  const Prepared there = prepared_by(*front_end_, canvas);
  Stopwatch watch;
  SeeSettings settings;
  settings.options.budget_tokens = 0;
  EXPECT_FALSE(choose(*front_end_, there, settings, watch));
}

// More sizes than workspaces are kept of.
TEST_F(FrontEndCuda, ManySizesInTurn) {
  for (int round = 0; round < 2; ++round)
    for (int side = 1; side <= 10; ++side) {
      const Image canvas = scene({32 * side, 32}, static_cast<unsigned>(side));
      const Prepared prepared = prepared_by(*front_end_, canvas);
      const auto measures = front_end_->measures(*prepared.on_device);
      ASSERT_TRUE(measures);
      EXPECT_EQ(measures->detail.lost,
                measure_detail(threads_, build_pyramid(threads_, canvas)).lost);
    }
}

}  // namespace
}  // namespace fovea
