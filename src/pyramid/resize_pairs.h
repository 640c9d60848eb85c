// SPDX-License-Identifier: Apache-2.0
// The weights of a resize as pairs of taps: one instruction takes two 16-bit products into a 32-bit
// sum. A weight has up to 24 bits, so it is split in two, and so are the sums:
//
//   weight = high * 2^11 + low, 0 <= low < 2^11
//
// The two sums wrap around where taps are many; put together they are exact again.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "pyramid/resize.h"

namespace fovea::detail {

inline constexpr int kLowBits = 11;

struct WeightPair {
  std::array<int16_t, 2> high = {};
  std::array<int16_t, 2> low = {};
};

struct PairAxis {
  int pairs = 0;                   // the stride of `weight`
  std::vector<int> first;          // [out_px] the first input pixel
  std::vector<int> count;          // [out_px] pairs
  std::vector<WeightPair> weight;  // [out_px][pairs]

  // One past the last pixel of output i's last pair; the second of it may lie outside the image.
  int end(int i) const { return first[static_cast<size_t>(i)] + 2 * count[static_cast<size_t>(i)]; }
  const WeightPair* weights(int i) const { return &weight[static_cast<size_t>(i) * pairs]; }
};

// The pixels a pass reads: [rows][columns] from `first_row` and `first_px` on, in coordinates of
// the pass's input.
struct SourcePixels {
  const uint8_t* data = nullptr;
  int64_t stride = 0;
  int first_row = 0;
  int rows = 0;
  int first_px = 0;
  int columns = 0;

  // A pair's second row or pixel may lie beyond the last; its weight is zero then.
  const uint8_t* row(int y) const { return data + std::min(y - first_row, rows - 1) * stride; }
  const uint8_t* pixel(int x, int y) const {
    return row(y) + int64_t{std::min(x - first_px, columns - 1)} * 3;
  }
};

// With `even`, pairs start at even pixels, so that neighbouring outputs share them.
inline PairAxis make_pairs(const ResizeAxis& axis, bool even) {
  PairAxis out;
  out.pairs = axis.taps / 2 + 1;
  out.weight.resize(axis.first.size() * static_cast<size_t>(out.pairs));
  for (size_t i = 0; i < axis.first.size(); ++i) {
    const int shift = even ? axis.first[i] % 2 : 0;
    out.first.push_back(axis.first[i] - shift);
    out.count.push_back((axis.count[i] + shift + 1) / 2);
    for (int j = 0; j < axis.count[i]; ++j) {
      const size_t tap = static_cast<size_t>(j) + static_cast<size_t>(shift);
      const int32_t weight =
          axis.weight[i * static_cast<size_t>(axis.taps) + static_cast<size_t>(j)];
      WeightPair& pair = out.weight[i * static_cast<size_t>(out.pairs) + tap / 2];
      pair.high[tap % 2] = static_cast<int16_t>(weight >> kLowBits);
      pair.low[tap % 2] = static_cast<int16_t>(weight & ((1 << kLowBits) - 1));
    }
  }
  return out;
}

// One output value: what the vectors compute, for where there are too few values to fill one.
// `value(tap)` is the input; the last pair's second tap may be asked for with a weight of zero.
template <class Value>
uint8_t weigh_pairs(const WeightPair* weights, int pairs, const Value& value) {
  int32_t sum = 1 << (kWeightBits - 1);
  for (int tap = 0; tap < 2 * pairs; ++tap) {
    const WeightPair& pair = weights[tap / 2];
    const auto side = static_cast<size_t>(tap % 2);
    sum += (pair.high[side] * (1 << kLowBits) + pair.low[side]) * value(tap);
  }
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

}  // namespace fovea::detail
