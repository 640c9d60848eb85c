// SPDX-License-Identifier: Apache-2.0
#include "pyramid/canvas.h"

#include <gtest/gtest.h>

#include <random>

#include "patches_golden.h"
#include "pyramid/resize.h"

namespace fovea {
namespace {

std::string name(Size size) {
  return std::to_string(size.width_px) + "x" + std::to_string(size.height_px);
}

TEST(CanvasSize, EqualsSmartResizeOnThousandsOfSizes) {
  ASSERT_GE(goldens().at("sizes").size(), 1000u);
  for (const auto& row : goldens().at("sizes")) {
    const Size image{row.at(0), row.at(1)};
    const Result<Size> bound = canvas_size(image);
    ASSERT_TRUE(bound) << name(image);
    EXPECT_EQ(*bound, (Size{row.at(2), row.at(3)})) << name(image);
    const Result<Size> free = canvas_size(image, kCanvasKeepsAll);
    ASSERT_TRUE(free) << name(image);
    EXPECT_EQ(*free, (Size{row.at(4), row.at(5)})) << name(image);
  }
}

TEST(CanvasSize, KeepsTheProcessorsOwnExamples) {
  const int cases[][4] = {{480, 640, 480, 640},     {1080, 1920, 1088, 1920}, {64, 64, 256, 256},
                          {100, 50, 384, 192},      {37, 4000, 32, 4000},     {48, 48, 256, 256},
                          {5000, 5000, 4096, 4096}, {3000, 6000, 2880, 5792}};
  for (const auto& [height, width, canvas_height, canvas_width] : cases) {
    const Result<Size> canvas = canvas_size({width, height});
    ASSERT_TRUE(canvas);
    EXPECT_EQ(*canvas, (Size{canvas_width, canvas_height})) << width << "x" << height;
  }
}

TEST(CanvasSize, IsAMultipleOf32WithinTheLimits) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> side(0, std::log(20000.0));
  for (int i = 0; i < 20000; ++i) {
    const Size image{static_cast<int>(std::exp(side(random))),
                     static_cast<int>(std::exp(side(random)))};
    const Result<Size> canvas = canvas_size(image);
    const int longer = std::max(image.width_px, image.height_px);
    ASSERT_EQ(static_cast<bool>(canvas), longer <= 200 * std::min(image.width_px, image.height_px));
    if (!canvas) continue;
    EXPECT_EQ(canvas->width_px % 32, 0) << name(image);
    EXPECT_EQ(canvas->height_px % 32, 0) << name(image);
    EXPECT_GE(canvas->pixels(), 65536) << name(image);
    EXPECT_LE(canvas->pixels(), 16777216) << name(image);
  }
}

TEST(CanvasSize, RefusesALongerSideRatioThan200AndNoPixels) {
  EXPECT_TRUE(canvas_size({2000, 10}));
  for (const Size image : {Size{4000, 10}, Size{2001, 10}, Size{1, 20000}}) {
    const Result<Size> canvas = canvas_size(image);
    ASSERT_FALSE(canvas) << name(image);
    EXPECT_EQ(canvas.error().kind, Error::Kind::kBadInput);
    EXPECT_NE(canvas.error().message.find(name(image)), std::string::npos);
    EXPECT_NE(canvas.error().message.find("at most 200"), std::string::npos);
    EXPECT_EQ(canvas.error().message.find('\n'), std::string::npos);
  }
  for (const Size image : {Size{0, 10}, Size{10, 0}, Size{-1, 5}, Size{0, 0}})
    EXPECT_FALSE(canvas_size(image)) << name(image);
}

TEST(FitCanvas, EqualsTheProcessorsCanvasBitForBit) {
  Threads threads(2);
  for (const auto& golden : goldens().at("processor")) {
    Image image = golden_image(golden);
    const std::string what = golden.at("picture").get<std::string>() + " " + name(image.size);
    const Result<Size> size = canvas_size(image.size);
    ASSERT_TRUE(size) << what;
    EXPECT_EQ(*size, golden_size(golden.at("canvas"))) << what;
    const Image canvas = fit_canvas(threads, std::move(image), *size);
    ASSERT_EQ(canvas.size, *size) << what;
    expect_golden(canvas.rgb, golden.at("canvas_samples"), golden.at("canvas_digest"), what);
  }
}

TEST(FitCanvas, EqualsPillowsResizeBitForBit) {
  Threads threads(2);
  for (const auto& golden : goldens().at("resize")) {
    const Size to = golden_size(golden.at("to"));
    const Image image = synthetic_image(golden_size(golden.at("size")));
    const std::string what = name(image.size) + " -> " + name(to);
    const Image out = fit_canvas(threads, image, to);
    expect_golden(out.rgb, golden.at("samples"), golden.at("digest"), what);
    expect_golden(resize_bicubic_reference(image, to).rgb, golden.at("samples"),
                  golden.at("digest"), "reference, " + what);
  }
}

TEST(FitCanvas, GivesBackTheSamePixelsWhereTheSizeIsKept) {
  Threads threads(1);
  Image image = synthetic_image({64, 96});
  const uint8_t* pixels = image.rgb.data();
  const Image canvas = fit_canvas(threads, std::move(image), {64, 96});
  EXPECT_EQ(canvas.rgb.data(), pixels);  // moved, not copied
}

}  // namespace
}  // namespace fovea
