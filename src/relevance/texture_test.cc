// SPDX-License-Identifier: Apache-2.0
#include "relevance/texture.h"

#include <gtest/gtest.h>

#include "relevance/luma.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

TEST(Luma, ARowEqualsItsPixelsForAnyLengthAndAllColours) {
  const Image image = noise_image({701, 1}, 2);
  for (int count = 0; count <= 200; ++count) {
    std::vector<uint8_t> row(static_cast<size_t>(count) + 1, 77);
    luma_row(image.row(0) + 3 * count, count, row.data());
    for (int x = 0; x < count; ++x)
      ASSERT_EQ(row[static_cast<size_t>(x)], luma_of(image.row(0) + 3 * (count + x))) << count;
    EXPECT_EQ(row.back(), 77) << "written past the end, count " << count;
  }
  for (int gray = 0; gray < 256; ++gray) {
    const std::vector<uint8_t> pixels(64 * 3, static_cast<uint8_t>(gray));
    std::vector<uint8_t> row(64);
    luma_row(pixels.data(), 64, row.data());
    EXPECT_EQ(row, std::vector<uint8_t>(64, static_cast<uint8_t>(gray)));
  }
}

TEST(Texture, EqualsTheReferenceForAnySizeAndFactor) {
  Threads threads(2);
  uint32_t seed = 1;
  for (const Size size : odd_sizes()) {
    for (const int factor : {1, 2, 4}) {
      const Image image = ++seed % 2 == 0 ? noise_image(size, seed) : scene_image(size, seed);
      const Plane fast = measure_texture(threads, view_of(image), factor);
      const Plane plain = measure_texture_reference(view_of(image), factor);
      EXPECT_EQ(fast.size, plain.size);
      EXPECT_EQ(fast.value, plain.value)
          << size.width_px << "x" << size.height_px << " factor " << factor;
    }
  }
}

TEST(Texture, IsZeroWhereFlatAndThirtyTwoTimesTheMeanStepOnACheckerboard) {
  Threads threads(1);
  const Plane flat = measure_texture(threads, view_of(flat_image({64, 48}, 200, 10, 90)), 4);
  EXPECT_EQ(flat.value, std::vector<uint32_t>(16 * 12, 0));
  Image board = flat_image({64, 64}, 0, 0, 0);
  for (int y = 0; y < 64; ++y)
    for (int x = y % 2; x < 64; x += 2) fill_rectangle(board, x, y, 1, 1, 255, 255, 255);
  // Inside every pixel differs by 255 from all four neighbours: the largest value there is.
  EXPECT_EQ(measure_texture(threads, view_of(board), 4).row(8)[8], 16U * 4 * 255);
}

TEST(Texture, OfAMirroredPictureIsMirrored) {
  Threads threads(2);
  const Image image = scene_image({200, 120}, 4);
  Image mirrored(image.size);
  for (int y = 0; y < 120; ++y)
    for (int x = 0; x < 200; ++x)
      std::copy_n(image.row(y) + 3 * x, 3, mirrored.row(119 - y) + 3 * (199 - x));
  const Plane one = measure_texture(threads, view_of(image), 4);
  Plane other = measure_texture(threads, view_of(mirrored), 4);
  std::reverse(other.value.begin(), other.value.end());
  EXPECT_EQ(one.value, other.value);
}

}  // namespace
}  // namespace fovea
