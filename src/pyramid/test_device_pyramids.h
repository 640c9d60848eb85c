// SPDX-License-Identifier: Apache-2.0
// What tests of kernels that read or write pyramids share.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "pyramid/device_pyramids.h"

namespace fovea {

inline Image random_canvas(Size size, uint32_t seed) {
  std::mt19937 random(seed);
  Image canvas(size);
  for (uint8_t& value : canvas.rgb) value = static_cast<uint8_t>(random() >> 13);
  return canvas;
}

// Whether every level of one image on the device is that of a pyramid on the host.
inline ::testing::AssertionResult same_levels(Stream& stream, const DevicePyramids& got, int image,
                                              const Pyramid& expected) {
  if (got.levels != expected.levels())
    return ::testing::AssertionFailure() << got.levels << " levels, not " << expected.levels();
  for (int index = 0; index < got.levels; ++index) {
    const LevelView level = expected.level(index);
    std::vector<uint8_t> rgb(static_cast<size_t>(got.image_bytes[index]));
    const auto stride = static_cast<size_t>(got.stride_bytes[index]);
    cudaMemcpy2DAsync(rgb.data(), stride, got.rgb[index] + image * got.image_bytes[index], stride,
                      static_cast<size_t>(3 * level.size.width_px),
                      static_cast<size_t>(level.size.height_px), cudaMemcpyDeviceToHost,
                      stream.get());
    if (const Status done = stream.wait(); !done)
      return ::testing::AssertionFailure() << done.error().message;
    for (int y = 0; y < level.size.height_px; ++y) {
      const uint8_t* row = rgb.data() + y * got.stride_bytes[index];
      for (int i = 0; i < 3 * level.size.width_px; ++i)
        if (row[i] != level.row(y)[i])
          return ::testing::AssertionFailure()
                 << got.canvas.width_px << "x" << got.canvas.height_px << ", image " << image
                 << ", level " << index << ": first bad byte " << i << " of row " << y << " is "
                 << int{row[i]} << ", not " << int{level.row(y)[i]};
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace fovea
