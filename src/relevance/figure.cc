// SPDX-License-Identifier: Apache-2.0
#include "relevance/figure.h"

#include <hwy/aligned_allocator.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "relevance/figure_cpu.h"

namespace fovea {
namespace {

constexpr size_t kUsedLanes = 2 * kFigureChannels;
static_assert(kUsedLanes <= kFigureLanes);

using Counts = std::array<std::array<int32_t, 256>, kFigureLanes>;
using Weights = std::array<std::array<uint32_t, 256>, kFigureLanes>;

void fill_lanes(const std::vector<ChannelValues>& channels, uint8_t* value) {
  for (const ChannelValues& pixel : channels) {
    std::memset(value, 0, kFigureLanes);
    for (size_t c = 0; c < kFigureChannels; ++c) {
      value[c] = pixel[c];
      value[kFigureChannels + c] = static_cast<uint8_t>(255 - pixel[c]);
    }
    value += kFigureLanes;
  }
}

// Calls visit(lane) where a pixel's value exceeds its reach: most pixels have few such lanes.
template <class Visit>
void for_surrounded(const uint8_t* value, const uint8_t* reach, const Visit& visit) {
  for (size_t first = 0; first < kFigureLanes; first += 8) {
    uint64_t values = 0;
    uint64_t reaches = 0;
    std::memcpy(&values, value + first, sizeof values);
    std::memcpy(&reaches, reach + first, sizeof reaches);
    for (size_t lane = first; lane < first + 8 && values != reaches; ++lane)
      if (value[lane] != reach[lane]) visit(lane);
  }
}

// The sums over thresholds below v of the weight of a surrounded pixel, for each lane and v.
Weights sum_weights(const Counts& counts) {
  Weights weights{};
  for (size_t lane = 0; lane < kUsedLanes; ++lane) {
    int64_t surrounded = 0;
    for (size_t t = 0; t < 255; ++t) {
      surrounded += counts[lane][t];
      weights[lane][t + 1] = weights[lane][t] + (surrounded > 0 ? figure_weight(surrounded) : 0);
    }
  }
  return weights;
}

}  // namespace

uint32_t figure_weight(int64_t n) {
  return static_cast<uint32_t>(4096 / std::sqrt(static_cast<double>(n)) + 0.5);
}

Plane measure_figure(Size size, const std::vector<ChannelValues>& channels) {
  FOVEA_CHECK(size.pixels() >= 1 && size.pixels() <= kFigurePixels);
  FOVEA_CHECK(channels.size() == static_cast<size_t>(size.pixels()));
  const auto value = hwy::AllocateAligned<uint8_t>(channels.size() * kFigureLanes);
  const auto reach = hwy::AllocateAligned<uint8_t>(channels.size() * kFigureLanes);
  FOVEA_CHECK(value != nullptr && reach != nullptr);
  fill_lanes(channels, value.get());
  reach_border(size, value.get(), reach.get());

  // A pixel is surrounded from its reach on, up to below its value.
  Counts counts{};
  for (size_t p = 0; p < channels.size() * kFigureLanes; p += kFigureLanes)
    for_surrounded(&value[p], &reach[p], [&](size_t lane) {
      ++counts[lane][reach[p + lane]];
      --counts[lane][value[p + lane]];
    });
  const Weights weights = sum_weights(counts);
  Plane plane(size);
  for (size_t p = 0; p < channels.size(); ++p) {
    uint32_t sum = 0;
    const size_t at = p * kFigureLanes;
    for_surrounded(&value[at], &reach[at], [&](size_t lane) {
      sum += weights[lane][value[at + lane]] - weights[lane][reach[at + lane]];
    });
    plane.value[p] = sum;
  }
  return plane;
}

}  // namespace fovea
