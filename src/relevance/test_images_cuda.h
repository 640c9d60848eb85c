// SPDX-License-Identifier: Apache-2.0
// Batches of pyramids on the device, for the tests of this room's kernels.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "device/cuda/stream.h"
#include "pyramid/device_pyramids.h"
#include "relevance/test_images.h"

namespace fovea {

// Pyramids made by the CPU, with what must not be read between their rows: 0xFF.
struct TestPyramids {
  std::vector<Pyramid> pyramids;
  DeviceMemory<uint8_t> memory;
  DevicePyramids device;

  TestPyramids(Threads& threads, Stream& stream, const std::vector<Image>& images) {
    pyramids = build_pyramids(threads, images);
    device.canvas = pyramids[0].canvas();
    device.levels = pyramids[0].levels();
    device.images = static_cast<int>(images.size());
    std::vector<uint8_t> bytes;
    std::vector<size_t> offset;
    for (int level = 0; level < device.levels; ++level) {
      offset.push_back(bytes.size());
      const Size size = pyramids[0].level(level).size;
      const auto at = static_cast<size_t>(level);
      device.stride_bytes[at] = (3 * size.width_px + 15) / 16 * 16 + level % 2 * 16;
      device.image_bytes[at] = device.stride_bytes[at] * size.height_px;
      for (const Pyramid& pyramid : pyramids) {
        const LevelView view = pyramid.level(level);
        for (int y = 0; y < size.height_px; ++y) {
          bytes.insert(bytes.end(), view.row(y), view.row(y) + 3 * size.width_px);
          bytes.resize(bytes.size() + static_cast<size_t>(device.stride_bytes[at]) -
                           3 * static_cast<size_t>(size.width_px),
                       0xFF);
        }
      }
    }
    EXPECT_TRUE(memory.allocate(bytes.size()));
    stream.upload(memory.data(), bytes.data(), bytes.size());
    EXPECT_TRUE(stream.wait());
    for (size_t level = 0; level < offset.size(); ++level)
      device.rgb[level] = memory.data() + offset[level];
  }
};

// Pictures that differ in kind: a scene, noise, one colour, large noise, then scenes.
inline std::vector<Image> test_batch(Size size, int images) {
  std::vector<Image> batch;
  for (int i = 0; i < images; ++i) {
    const auto seed = static_cast<uint32_t>(i + 1);
    if (i == 1) {
      batch.push_back(noise_image(size, seed));
    } else if (i == 2) {
      batch.push_back(flat_image(size, 9, 99, 199));
    } else if (i == 3) {
      const int scale = std::max(1, std::max(size.width_px, size.height_px) / 96);
      const Image small =
          noise_image({size.width_px / scale + 1, size.height_px / scale + 1}, seed);
      Image& large = batch.emplace_back(size);
      for (int y = 0; y < size.height_px; ++y)
        for (int x = 0; x < size.width_px; ++x)
          std::copy_n(small.row(y / scale) + 3 * (x / scale), 3, large.row(y) + 3 * x);
    } else {
      batch.push_back(scene_image(size, seed));
    }
  }
  return batch;
}

}  // namespace fovea
