// SPDX-License-Identifier: Apache-2.0
#include "picture/colour.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace fovea {
namespace {

double distance(const OkLab& a, const OkLab& b) {
  return std::hypot(a.lightness - b.lightness, a.a - b.a, a.b - b.b);
}

TEST(OkLab, KnownColoursHaveTheirPublishedValues) {
  // White and pure red as the definition of OKLab gives them, to its printed three digits.
  const OkLab white = oklab_of({255, 255, 255});
  EXPECT_NEAR(white.lightness, 1, 5e-4);
  EXPECT_NEAR(std::hypot(white.a, white.b), 0, 5e-4);
  const OkLab red = oklab_of({255, 0, 0});
  EXPECT_NEAR(red.lightness, 0.628, 5e-4);
  EXPECT_NEAR(red.a, 0.225, 5e-4);
  EXPECT_NEAR(red.b, 0.126, 5e-4);
}

TEST(OkLab, EveryRgbComesBack) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    const unsigned bits = random();
    const Rgb colour{static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8),
                     static_cast<uint8_t>(bits >> 16)};
    ASSERT_EQ(rgb_of(oklab_of(colour)), colour) << i;
  }
}

TEST(OkLab, ColoursOutsideSrgbKeepLightnessAndHue) {
  for (int degrees = 0; degrees < 360; degrees += 15) {
    const double hue = degrees * 0.017453292519943295;
    const OkLab loud{0.6, 0.4 * std::cos(hue), 0.4 * std::sin(hue)};
    const OkLab shown = oklab_of(rgb_of(loud));
    // 8-bit rounding of dark channels moves lightness by up to half a percent.
    EXPECT_NEAR(shown.lightness, loud.lightness, 0.005) << degrees;
    EXPECT_NEAR(std::remainder(std::atan2(shown.b, shown.a) - hue, 6.283185307179586), 0, 0.03)
        << degrees;
  }
}

TEST(Heat, EveryOf256StepsIsLighterThanTheOneBefore) {
  double before = -1;
  for (int step = 0; step < 256; ++step) {
    const double lightness = oklab_of(rgb_of(heat(step / 255.0))).lightness;
    ASSERT_GT(lightness, before) << step;
    before = lightness;
  }
}

TEST(Heat, LightnessIsProportionalToTheScore) {
  const double dark = heat(0).lightness;
  const double light = heat(1).lightness;
  EXPECT_GT(light - dark, 0.7);
  for (int step = 0; step <= 100; ++step)
    ASSERT_NEAR(heat(step / 100.0).lightness, dark + (light - dark) * step / 100, 1e-12);
}

TEST(Heat, EqualStepsOfTheScoreLookAlike) {
  // Perceptual: no step of 1/32 may look more than 2.5 times as large as another.
  double least = 1;
  double most = 0;
  for (int step = 0; step < 32; ++step) {
    const double seen =
        distance(oklab_of(rgb_of(heat(step / 32.0))), oklab_of(rgb_of(heat((step + 1) / 32.0))));
    least = std::min(least, seen);
    most = std::max(most, seen);
  }
  EXPECT_LT(most, 2.5 * least);
}

TEST(Heat, ScoresOutsideTheirRangeAreClamped) {
  EXPECT_EQ(rgb_of(heat(-3)), rgb_of(heat(0)));
  EXPECT_EQ(rgb_of(heat(7)), rgb_of(heat(1)));
}

TEST(LevelColour, AnyTwoOfTheFirstEightAreEasilyToldApart) {
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < a; ++b)
      EXPECT_GT(distance(oklab_of(level_colour(a)), oklab_of(level_colour(b))), 0.1)
          << a << " and " << b;  // a just noticeable difference is about 0.02
}

TEST(LevelColour, Level0IsTheLightestAndAllStandOutFromTheGround) {
  for (int level = 0; level < 24; ++level) {
    const double lightness = oklab_of(level_colour(level)).lightness;
    EXPECT_GT(lightness, oklab_of(ink::kGround).lightness + 0.35) << level;
    if (level % 8 != 0) {
      EXPECT_LT(lightness, oklab_of(level_colour(0)).lightness - 0.1) << level;
    }
  }
}

TEST(Mix, EndsAreExactAndTheMiddleLiesBetween) {
  const Rgb under{10, 200, 0};
  const Rgb over{250, 100, 255};
  EXPECT_EQ(mix(under, over, 0), under);
  EXPECT_EQ(mix(under, over, 255), over);
  EXPECT_EQ(mix(under, over, 51), (Rgb{58, 180, 51}));
}

}  // namespace
}  // namespace fovea
