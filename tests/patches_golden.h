// SPDX-License-Identifier: Apache-2.0
// What tools/golden/patches.py wrote: sizes, canvases and patches of transformers' image processor.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/words.h"
#include "places.h"

namespace fovea {

inline std::string golden_path(const std::string& name) {
  return source_dir() + "/tests/fixtures/patches/" + name;
}

inline const nlohmann::json& goldens() {
  static const nlohmann::json all = [] {
    std::ifstream file(golden_path("goldens.json"));
    return nlohmann::json::parse(file);
  }();
  return all;
}

inline Size golden_size(const nlohmann::json& pair) {
  return {pair.at(0).get<int>(), pair.at(1).get<int>()};
}

// The script's synthetic(): waves with noise.
inline Image synthetic_image(Size size) {
  Image image(size);
  uint8_t* out = image.rgb.data();
  for (uint32_t y = 0; y < static_cast<uint32_t>(size.height_px); ++y) {
    for (uint32_t x = 0; x < static_cast<uint32_t>(size.width_px); ++x) {
      for (uint32_t c = 0; c < 3; ++c) {
        uint32_t wave = (x * (3 + c) + y * (5 - c)) % 512;
        if (wave >= 256) wave = 511 - wave;
        uint32_t noise = x * 374761393u + y * 668265263u + c * 2246822519u;
        noise = (noise ^ (noise >> 13)) * 1274126177u;
        noise = (noise ^ (noise >> 16)) % 64;
        *out++ = static_cast<uint8_t>(std::min(255u, (wave * 3 + noise * 4) / 4));
      }
    }
  }
  return image;
}

inline Image golden_image(const nlohmann::json& golden) {
  const Size size = golden_size(golden.at("size"));
  const auto name = golden.at("picture").get<std::string>();
  if (name == "synthetic") return synthetic_image(size);
  std::ifstream file(golden_path(name), std::ios::binary);
  std::string magic;
  int width = 0, height = 0, most = 0;
  file >> magic >> width >> height >> most;
  file.get();
  Image image(size);
  file.read(reinterpret_cast<char*>(image.rgb.data()), static_cast<long>(image.rgb.size()));
  EXPECT_TRUE(file && magic == "P6" && most == 255 && size == (Size{width, height})) << name;
  return image;
}

// The script's digest(): the values weighted by their place, modulo 2^64.
template <class Values>
std::string golden_digest(const Values& values) {
  uint64_t total = 0;
  uint64_t i = 0;
  for (const auto value : values) {
    uint64_t place = i++ * 0x9E3779B97F4A7C15u;
    place ^= place >> 29;
    total += (uint64_t{value} + 1) * place;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(total));
  return text;
}

// Some values first, since they say how far off a result is; then all of them by their digest.
template <class Values>
void expect_golden(const Values& values, const nlohmann::json& some, const nlohmann::json& digest,
                   const std::string& what) {
  for (uint64_t i = 0; i < some.size(); ++i) {
    const size_t index = i * 2654435761u % values.size();
    ASSERT_EQ(static_cast<uint64_t>(values[index]), some[i].get<uint64_t>())
        << what << ", bad index " << index;
  }
  EXPECT_EQ(golden_digest(values), digest.get<std::string>()) << what;
}

}  // namespace fovea
