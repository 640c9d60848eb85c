// SPDX-License-Identifier: Apache-2.0
#include "vision/positions_cuda.h"

#include <random>

#include "device/cuda/test_device.h"
#include "vision/positions.h"

namespace fovea {
namespace {

using PositionsCuda = CudaTest;

std::vector<PatchPlace> random_places(std::mt19937& random, Size canvas, int count) {
  std::vector<PatchPlace> places;
  for (int i = 0; i < count; ++i) {
    const int level = static_cast<int>(random() % 4);
    places.push_back({place_at(static_cast<int>(random() % 64), level, canvas.height_px / kPatchPx),
                      place_at(static_cast<int>(random() % 64), level, canvas.width_px / kPatchPx),
                      level});
  }
  return places;
}

std::vector<float> random_values(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST_F(PositionsCuda, PlacesAreAddedAsOnTheCpu) {
  std::mt19937 random(5);
  Threads threads(1);
  for (const Size canvas : {Size{32, 32}, Size{1024, 96}, Size{512, 2048}}) {
    for (const int levels : {0, 3}) {
      constexpr int kSide = 12;
      constexpr int kWidth = 36;
      constexpr int kCount = 21;
      const auto places = random_places(random, canvas, kCount);
      const auto table = random_values(random, kSide * kSide * kWidth);
      auto level_table = random_values(random, static_cast<size_t>(levels) * kWidth);
      if (levels > 0) std::fill_n(level_table.begin(), kWidth, 0.0f);
      auto expected = random_values(random, kCount * kWidth);
      const auto x = on_device(expected);
      add_positions(threads, places, canvas, table.data(), kSide, kWidth, expected.data());
      add_levels(threads, places, level_table.data(), levels, kWidth, expected.data());
      const auto device_table = on_device(table);
      const auto device_levels = on_device(level_table);
      const auto device_places = on_device(places);
      add_places_cuda(stream(), device_places.data(), kCount, canvas,
                      {device_table.data(), kSide, device_levels.data(), levels, kWidth},
                      const_cast<float*>(x.data()));
      const auto result = on_host(x);
      for (size_t i = 0; i < result.size(); ++i)
        ASSERT_NEAR(result[i], expected[i], 2e-6 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

TEST_F(PositionsCuda, AnglesAreThoseOfTheCpu) {
  std::mt19937 random(6);
  Threads threads(1);
  for (const int head_dim : {8, 64}) {
    const auto places = random_places(random, {2048, 2048}, 33);
    const RotaryAngles expected = rotary_angles(threads, places, head_dim, 10'000);
    const auto frequencies = on_device(tower_frequencies(head_dim, 10'000));
    const auto device_places = on_device(places);
    auto cos = poisoned<float>(expected.cos.size());
    auto sin = poisoned<float>(expected.sin.size());
    rotary_angles_cuda(stream(), device_places.data(), static_cast<int>(places.size()),
                       frequencies.data(), head_dim / 4, cos.data(), sin.data());
    const auto cosines = on_host(cos);
    const auto sines = on_host(sin);
    for (size_t i = 0; i < cosines.size(); ++i) {
      ASSERT_NEAR(cosines[i], expected.cos[i], 1e-6);
      ASSERT_NEAR(sines[i], expected.sin[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace fovea
