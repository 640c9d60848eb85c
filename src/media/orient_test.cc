// SPDX-License-Identifier: Apache-2.0
#include "media/orient.h"

#include <gtest/gtest.h>

#include <random>

namespace fovea {
namespace {

Image noise(Size size, unsigned seed) {
  std::mt19937 random(seed);
  Image image(size);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
  return image;
}

// Where the pixel that is shown at (x, y) is stored, by the definition in the EXIF standard: which
// side of the scene the stored row 0 and column 0 are.
Point stored_at(int orientation, int x, int y, Size stored) {
  const int right = stored.width_px - 1;
  const int low = stored.height_px - 1;
  switch (orientation) {
    case 2:  // top, right
      return {double(right - x), double(y)};
    case 3:  // bottom, right
      return {double(right - x), double(low - y)};
    case 4:  // bottom, left
      return {double(x), double(low - y)};
    case 5:  // left, top
      return {double(y), double(x)};
    case 6:  // right, top
      return {double(y), double(low - x)};
    case 7:  // right, bottom
      return {double(right - y), double(low - x)};
    case 8:  // left, bottom
      return {double(right - y), double(x)};
    default:
      return {double(x), double(y)};
  }
}

TEST(Orient, EveryPixelComesFromWhereExifSays) {
  for (const Size size : {Size{1, 1}, {1, 7}, {5, 1}, {2, 3}, {31, 33}, {64, 32}, {65, 97}}) {
    const Image stored = noise(size, 7);
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const Image shown = orient(stored, orientation);
      const bool swapped = orientation >= 5;
      ASSERT_EQ(shown.size, (swapped ? Size{size.height_px, size.width_px} : size));
      for (int y = 0; y < shown.size.height_px; ++y) {
        for (int x = 0; x < shown.size.width_px; ++x) {
          const Point from = stored_at(orientation, x, y, size);
          for (int c = 0; c < 3; ++c)
            ASSERT_EQ(shown.row(y)[3 * x + c],
                      stored.row(static_cast<int>(from.y_px))[3 * static_cast<int>(from.x_px) + c])
                << "orientation " << orientation << " at " << x << "," << y;
        }
      }
    }
  }
}

TEST(Orient, TheInverseGivesThePictureBack) {
  constexpr int kInverse[9] = {0, 1, 2, 3, 4, 5, 8, 7, 6};
  const Image picture = noise({37, 50}, 11);
  for (int orientation = 1; orientation <= 8; ++orientation)
    EXPECT_EQ(orient(orient(picture, orientation), kInverse[orientation]).rgb, picture.rgb);
}

}  // namespace
}  // namespace fovea
