// SPDX-License-Identifier: Apache-2.0
// Pictures the tests and benchmarks of this room are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

inline LevelView view_of(const Image& image) {
  return {image.rgb.data(), image.size, int64_t{image.size.width_px} * 3};
}

inline Image flat_image(Size size, uint8_t r, uint8_t g, uint8_t b) {
  Image image(size);
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    image.rgb[i] = r;
    image.rgb[i + 1] = g;
    image.rgb[i + 2] = b;
  }
  return image;
}

inline Image noise_image(Size size, uint32_t seed) {
  Image image(size);
  std::mt19937 random(seed);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
  return image;
}

inline void fill_rectangle(Image& image, int x0, int y0, int width, int height, uint8_t r,
                           uint8_t g, uint8_t b) {
  for (int y = std::max(0, y0); y < std::min(image.size.height_px, y0 + height); ++y) {
    for (int x = std::max(0, x0); x < std::min(image.size.width_px, x0 + width); ++x) {
      uint8_t* pixel = image.row(y) + static_cast<ptrdiff_t>(3) * x;
      pixel[0] = r;
      pixel[1] = g;
      pixel[2] = b;
    }
  }
}

// Something like a photograph: a gradient, rectangles of every size, and a little noise.
inline Image scene_image(Size size, uint32_t seed, int rectangles = 24) {
  Image image(size);
  std::mt19937 random(seed);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<uint32_t>(limit));
  };
  for (int y = 0; y < size.height_px; ++y) {
    for (int x = 0; x < size.width_px; ++x) {
      uint8_t* pixel = image.row(y) + static_cast<ptrdiff_t>(3) * x;
      pixel[0] = static_cast<uint8_t>(100 + 60 * x / size.width_px);
      pixel[1] = static_cast<uint8_t>(120 + 60 * y / size.height_px);
      pixel[2] = static_cast<uint8_t>(200 - 90 * y / size.height_px);
    }
  }
  for (int i = 0; i < rectangles; ++i) {
    const int width = 1 + below(1 + size.width_px / 4);
    const int height = 1 + below(1 + size.height_px / 4);
    fill_rectangle(image, below(size.width_px), below(size.height_px), width, height,
                   static_cast<uint8_t>(below(256)), static_cast<uint8_t>(below(256)),
                   static_cast<uint8_t>(below(256)));
  }
  for (uint8_t& value : image.rgb)
    value = static_cast<uint8_t>(std::clamp(value + below(7) - 3, 0, 255));
  return image;
}

// Sizes around every border the code has: a pixel, a vector, a cell, a block, thin, wide, larger.
inline std::vector<Size> odd_sizes() {
  return {{1, 1},     {2, 1},     {1, 3},     {15, 16},   {31, 33},  {32, 32},
          {33, 31},   {64, 65},   {67, 129},  {255, 97},  {288, 32}, {417, 250},
          {6400, 32}, {32, 6400}, {800, 608}, {1023, 515}};
}

}  // namespace fovea
