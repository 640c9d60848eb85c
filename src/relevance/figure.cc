// SPDX-License-Identifier: Apache-2.0
#include "relevance/figure.h"

#include <hwy/aligned_allocator.h>

#include <cmath>
#include <cstring>
#include <new>

#include "base/check.h"
#include "relevance/figure_cpu.h"

namespace fovea {
namespace {

constexpr size_t kOther = kFigureLanes / 2;  // lane of the first channel's other side
static_assert(sizeof(ChannelValues) == kOther);

// One number for each value: how many pixels have it, or the sum of weights up to it. The values of
// a channel's other side are its own mirrored, so only reaches need a table for either side.
using Table = std::array<uint32_t, 256>;
struct Tables {
  std::array<Table, kFigureChannels> value{};
  std::array<Table, kFigureChannels> reach{};
  std::array<Table, kFigureChannels> other_reach{};
};

// Unused lanes are 0 on one side and 255 on the other everywhere: nothing is surrounded there.
void fill_lanes(const std::vector<ChannelValues>& channels, uint8_t* value) {
  for (const ChannelValues& pixel : channels) {
    uint64_t eight = 0;
    std::memcpy(&eight, pixel.data(), sizeof eight);
    const uint64_t other = ~eight;  // 255 - value in each byte
    std::memcpy(value, &eight, sizeof eight);
    std::memcpy(value + kOther, &other, sizeof other);
    value += kFigureLanes;
  }
}

// sums[v] = the sum over thresholds t < v of the weight of a surrounded pixel. A pixel is
// surrounded from its reach on, up to below its value: n(t) = reaches up to t - values up to t.
template <class Values>
Table sum_weights(const Table& reaches, const Values& values) {
  Table sums{};
  int64_t surrounded = 0;
  for (size_t t = 0; t < 255; ++t) {
    surrounded += int64_t{reaches[t]} - int64_t{values(t)};
    sums[t + 1] = sums[t] + (surrounded > 0 ? figure_weight(surrounded) : 0);
  }
  return sums;
}

// Visits every pixel without a branch for those that are not surrounded: they are hard to foresee.
Tables count(size_t pixels, const uint8_t* value, const uint8_t* reach) {
  Tables counts;
  for (size_t p = 0; p < pixels; ++p, value += kFigureLanes, reach += kFigureLanes) {
    for (size_t c = 0; c < kFigureChannels; ++c) {
      ++counts.value[c][value[c]];
      ++counts.reach[c][reach[c]];
      ++counts.other_reach[c][reach[kOther + c]];
    }
  }
  return counts;
}

Tables sum_all_weights(const Tables& counts) {
  Tables sums;
  for (size_t c = 0; c < kFigureChannels; ++c) {
    const Table& values = counts.value[c];
    sums.reach[c] = sum_weights(counts.reach[c], [&](size_t t) { return values[t]; });
    sums.other_reach[c] =
        sum_weights(counts.other_reach[c], [&](size_t t) { return values[255 - t]; });
    for (size_t v = 0; v < 256; ++v)
      sums.value[c][v] = sums.reach[c][v] + sums.other_reach[c][255 - v];
  }
  return sums;
}

// Not inlined: where GCC sees that `out` is none of the tables it makes 15 lookups a pixel into
// vectors, lane by lane, at twice the time.
[[gnu::noinline]] void sum_pixels(const Tables& sums, size_t pixels, const uint8_t* value,
                                  const uint8_t* reach, uint32_t* out) {
  for (size_t p = 0; p < pixels; ++p, value += kFigureLanes, reach += kFigureLanes) {
    uint32_t sum = 0;
    for (size_t c = 0; c < kFigureChannels; ++c)
      sum += sums.value[c][value[c]] - sums.reach[c][reach[c]] -
             sums.other_reach[c][reach[kOther + c]];
    out[p] = sum;
  }
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
  if (value == nullptr || reach == nullptr) throw std::bad_alloc();
  fill_lanes(channels, value.get());
  reach_border(size, value.get(), reach.get());

  const Tables sums = sum_all_weights(count(channels.size(), value.get(), reach.get()));
  Plane plane(size);
  sum_pixels(sums, channels.size(), value.get(), reach.get(), plane.value.data());
  return plane;
}

}  // namespace fovea
