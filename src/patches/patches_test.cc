// SPDX-License-Identifier: Apache-2.0
#include "patches/patches.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <random>

#include "patches_golden.h"
#include "pyramid/canvas.h"

namespace fovea {
namespace {

Plan uniform_plan(Size canvas, int level) {
  Plan plan;
  const Grid grid = grid_at(canvas, level);
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) plan.cells.push_back({level, row, col});
  return plan;
}

// Every cell of every level with the given chance, in the order of a plan.
Plan random_plan(Size canvas, double chance, std::mt19937& random) {
  Plan plan;
  std::uniform_real_distribution<double> draw(0, 1);
  for (int level = level_count(canvas) - 1; level >= 0; --level)
    for (const Cell& cell : uniform_plan(canvas, level).cells)
      if (draw(random) < chance) plan.cells.push_back(cell);
  return plan;
}

Image random_image(Size size, std::mt19937& random) {
  Image image(size);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
  return image;
}

// The next buffer of this size most likely lies where this one was, so that a value that is not
// written shows.
template <class T>
void poison(size_t count) {
  Buffer<T> buffer(count);
  std::fill(buffer.begin(), buffer.end(), static_cast<T>(-12345));
}

template <class T>
void expect_same_bits(const Buffer<T>& got, const Buffer<T>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  const size_t bytes = got.size() * sizeof(T);
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits are meant, not the values
  if (bytes == 0 || std::memcmp(got.data(), expected.data(), bytes) == 0) return;
  size_t i = 0;
  while (std::memcmp(&got[i], &expected[i], sizeof(T)) == 0) ++i;  // NOLINT: likewise
  FAIL() << what << ", first bad index " << i << " (patch " << i / kPatchValues << "): " << got[i]
         << ", expected " << expected[i];
}

void expect_same(const Patches& got, const Patches& expected, const std::string& what) {
  EXPECT_EQ(got.format, expected.format) << what;
  EXPECT_EQ(got.count, expected.count) << what;
  EXPECT_EQ(got.places, expected.places) << what;
  expect_same_bits(got.f32, expected.f32, what);
  expect_same_bits(got.bf16, expected.bf16, what);
}

// Samples with every target and several thread counts and compares with the reference.
void check_plan(const Pyramid& pyramid, const Plan& plan) {
  for (const PatchFormat format : {PatchFormat::kFloat32, PatchFormat::kBFloat16}) {
    const Patches expected = sample_patches_reference(pyramid, plan, format);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      for (const int count : {1, 2, 3, 8}) {
        Threads threads(count);
        poison<float>(expected.f32.size());
        poison<uint16_t>(expected.bf16.size());
        expect_same(sample_patches(threads, pyramid, plan, format), expected,
                    std::to_string(pyramid.canvas().width_px) + "x" +
                        std::to_string(pyramid.canvas().height_px) + ", " +
                        std::to_string(plan.tokens()) + " tokens, format " +
                        std::to_string(static_cast<int>(format)) + " on " +
                        hwy::TargetName(target) + ", " + std::to_string(count) + " threads");
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(Patches, UniformPlanEqualsTheProcessorBitForBit) {
  Threads threads(2);
  for (const auto& golden : goldens().at("processor")) {
    Image image = golden_image(golden);
    const Result<Size> size = canvas_size(image.size);
    ASSERT_TRUE(size);
    const Pyramid pyramid = build_pyramid(threads, fit_canvas(threads, std::move(image), *size));
    const Patches patches = sample_patches(threads, pyramid, uniform_plan(*size, 0));
    std::vector<uint32_t> bits(patches.f32.size());
    std::memcpy(bits.data(), patches.f32.data(), patches.bytes());
    expect_golden(bits, golden.at("patches_samples"), golden.at("patches_digest"),
                  golden.at("picture").get<std::string>() + " of " + golden.at("size").dump());
  }
}

TEST(Patches, NormalisedEqualsTheProcessorBitForBit) {
  const auto& bits = goldens().at("normalised_bits");
  ASSERT_EQ(bits.size(), 256u);
  for (size_t value = 0; value < 256; ++value)
    EXPECT_EQ(std::bit_cast<uint32_t>(normalised(static_cast<uint8_t>(value))),
              bits[value].get<uint32_t>())
        << value;
}

TEST(Patches, EveryTargetAndThreadCountEqualsTheReferenceOnAllCells) {
  Threads threads(1);
  std::mt19937 random(1);
  // The last has patches enough to be written past the caches.
  for (const Size canvas : {Size{32, 32}, Size{96, 32}, Size{32, 160}, Size{480, 352},
                            Size{1056, 32}, Size{640, 608}}) {
    const Pyramid pyramid = build_pyramid(threads, random_image(canvas, random));
    check_plan(pyramid, random_plan(canvas, 2, random));
  }
}

TEST(Patches, RandomPlansEqualTheReference) {
  Threads threads(2);
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) {
    const Size canvas{static_cast<int>(random() % 20 + 1) * 32,
                      static_cast<int>(random() % 20 + 1) * 32};
    const Pyramid pyramid = build_pyramid(threads, random_image(canvas, random));
    const Plan plan = random_plan(canvas, 0.1 * (i % 5), random);
    for (const PatchFormat format : {PatchFormat::kFloat32, PatchFormat::kBFloat16})
      expect_same(sample_patches(threads, pyramid, plan, format),
                  sample_patches_reference(pyramid, plan, format), "plan " + std::to_string(i));
  }
}

TEST(Patches, EveryByteValueIsNormalisedExactlyOnEveryTarget) {
  Image image({256, 32});
  for (size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<uint8_t>(i / 3 + i % 3 * 85);
  Threads threads(1);
  check_plan(build_pyramid(threads, std::move(image)), uniform_plan({256, 32}, 0));
}

TEST(Patches, LayoutIsChannelFrameRowColumnAndPatchesGoRowByRow) {
  Image image({64, 64});
  for (int y = 0; y < 64; ++y)
    for (int x = 0; x < 64; ++x)
      for (int c = 0; c < 3; ++c)
        image.row(y)[x * 3 + c] = static_cast<uint8_t>(c == 0 ? x : c == 1 ? y : x * 4 ^ y);
  Threads threads(1);
  const Pyramid pyramid = build_pyramid(threads, image);
  const Patches patches = sample_patches(threads, pyramid, uniform_plan({64, 64}, 0));
  ASSERT_EQ(patches.count, 16);
  for (int cell = 0; cell < 4; ++cell)
    for (int patch = 0; patch < 4; ++patch)
      for (int i = 0; i < kPatchValues; ++i) {
        const int x = cell % 2 * 32 + patch % 2 * 16 + i % 16;
        const int y = cell / 2 * 32 + patch / 2 * 16 + i / 16 % 16;
        const int channel = i / 512;
        ASSERT_EQ(patches.f32[static_cast<size_t>((cell * 4 + patch) * kPatchValues + i)],
                  normalised(image.row(y)[x * 3 + channel]))
            << "cell " << cell << ", patch " << patch << ", value " << i;
      }
}

TEST(Patches, CellsThatHangOverTheEdgeRepeatTheLastPixels) {
  std::mt19937 random(3);
  Threads threads(1);
  const Pyramid pyramid = build_pyramid(threads, random_image({96, 32}, random));
  const LevelView level = pyramid.level(1);
  ASSERT_EQ(level.size, (Size{48, 16}));
  Plan plan;
  plan.cells = {{1, 0, 1}};
  const Patches patches = sample_patches(threads, pyramid, plan);
  for (size_t i = 0; i < patches.f32.size(); ++i) {
    const auto at = static_cast<int>(i);
    const int x = at / kPatchValues % 2 * 16 + at % 16;
    const int y = at / kPatchValues / 2 * 16 + at / 16 % 16;
    const int channel = at % kPatchValues / 512;
    ASSERT_EQ(patches.f32[i],
              normalised(level.row(std::min(y, 15))[std::min(32 + x, 47) * 3 + channel]))
        << "value " << i;
  }
  // Patches 2 and 3 of level 1 sit at 4.5 and, past the last of the canvas' six, at 5.
  EXPECT_EQ(patches.places[0], (PatchPlace{0.5f, 4.5f, 1}));
  EXPECT_EQ(patches.places[3], (PatchPlace{1.0f, 5.0f, 1}));
}

TEST(PatchPlaces, AreTheIndexAtLevelZero) {
  Threads threads(1);
  const Pyramid pyramid = build_pyramid(threads, Image({96, 64}));
  const Patches patches = sample_patches(threads, pyramid, uniform_plan({96, 64}, 0));
  ASSERT_EQ(patches.places.size(), 24u);
  EXPECT_EQ(patches.places[0], (PatchPlace{0, 0, 0}));
  EXPECT_EQ(patches.places[1], (PatchPlace{0, 1, 0}));
  EXPECT_EQ(patches.places[2], (PatchPlace{1, 0, 0}));
  EXPECT_EQ(patches.places[23], (PatchPlace{3, 5, 0}));
}

TEST(PatchPlaces, AreTheMeanOfTheLevelBelow) {
  for (int level = 1; level < 12; ++level)
    for (int index = 0; index < 50; ++index)
      EXPECT_EQ(place_at(index, level, 1 << 20), (place_at(2 * index, level - 1, 1 << 20) +
                                                  place_at(2 * index + 1, level - 1, 1 << 20)) /
                                                     2);
}

TEST(PatchPlaces, NeverLeaveTheCanvas) {
  Threads threads(1);
  std::mt19937 random(4);
  for (const Size canvas : {Size{32, 32}, Size{160, 96}, Size{1056, 544}, Size{32, 6400}}) {
    const Pyramid pyramid = build_pyramid(threads, Image(canvas));
    const Plan plan = random_plan(canvas, 0.5, random);
    const int last_row = canvas.height_px / kPatchPx - 1;
    const int last_col = canvas.width_px / kPatchPx - 1;
    for (const PatchPlace& place : sample_patches(threads, pyramid, plan).places) {
      EXPECT_GE(place.row, 0);
      EXPECT_GE(place.col, 0);
      EXPECT_LE(place.row, static_cast<float>(last_row));
      EXPECT_LE(place.col, static_cast<float>(last_col));
    }
  }
}

TEST(BFloat16, RoundsToTheNearestAndHalvesToEven) {
  EXPECT_EQ(to_bfloat16(1.0f), 0x3F80);
  EXPECT_EQ(to_bfloat16(-1.0f), 0xBF80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // half, even below
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F818000u)), 0x3F82);  // half, even above
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3FFFFFFFu)), 0x4000);  // carries into the exponent
  for (int value = 0; value < 256; ++value) {
    const float exact = normalised(static_cast<uint8_t>(value));
    const auto rounded = std::bit_cast<float>(uint32_t{to_bfloat16(exact)} << 16);
    EXPECT_LE(std::abs(rounded - exact), std::abs(exact) / 256) << value;  // half of 2^-7
  }
}

TEST(Patches, AnEmptyPlanGivesNone) {
  Threads threads(2);
  const Pyramid pyramid = build_pyramid(threads, Image({64, 64}));
  const Patches patches = sample_patches(threads, pyramid, Plan());
  EXPECT_EQ(patches.count, 0);
  EXPECT_EQ(patches.bytes(), 0u);
  EXPECT_TRUE(patches.places.empty());
}

TEST(PatchesDeathTest, ACellOutsideTheGridStopsTheProgram) {
  Threads threads(1);
  const Pyramid pyramid = build_pyramid(threads, Image({64, 64}));
  for (const Cell cell : {Cell{2, 0, 0}, Cell{0, 2, 0}, Cell{1, 0, 1}, Cell{0, -1, 0}}) {
    Plan plan;
    plan.cells = {cell};
    EXPECT_DEATH(sample_patches(threads, pyramid, plan), "check failed");
  }
}

}  // namespace
}  // namespace fovea
