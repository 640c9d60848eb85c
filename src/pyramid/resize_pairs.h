// SPDX-License-Identifier: Apache-2.0
// The weights of a resize as pairs of taps: one instruction takes two 16-bit products into a 32-bit
// sum.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "pyramid/resize.h"

namespace fovea::detail {

using WeightPair = std::array<int16_t, 2>;

struct PairAxis {
  int precision_bits = 0;
  int pairs = 0;                   // the stride of `weight`
  std::vector<int> first;          // [out_px] the first input pixel
  std::vector<int> count;          // [out_px] pairs
  std::vector<WeightPair> weight;  // [out_px][pairs]

  // One past the last pixel of output i's last pair; the second of it may lie outside the image.
  int end(int i) const { return first[static_cast<size_t>(i)] + 2 * count[static_cast<size_t>(i)]; }
  const WeightPair* weights(int i) const { return &weight[static_cast<size_t>(i) * pairs]; }
};

// With `even`, pairs start at even pixels, so that neighbouring outputs share them.
inline PairAxis make_pairs(const ResizeAxis& axis, bool even) {
  PairAxis out;
  out.precision_bits = axis.precision_bits;
  out.pairs = axis.taps / 2 + 1;
  out.weight.resize(axis.first.size() * static_cast<size_t>(out.pairs));
  for (size_t i = 0; i < axis.first.size(); ++i) {
    const int shift = even ? axis.first[i] % 2 : 0;
    out.first.push_back(axis.first[i] - shift);
    out.count.push_back((axis.count[i] + shift + 1) / 2);
    for (int j = 0; j < axis.count[i]; ++j) {
      const auto tap = static_cast<size_t>(j + shift);
      out.weight[i * static_cast<size_t>(out.pairs) + tap / 2][tap % 2] =
          axis.weight[i * static_cast<size_t>(axis.taps) + static_cast<size_t>(j)];
    }
  }
  return out;
}

// One output value: what the vectors compute, for where there are too few values to fill one.
// `value(tap)` is the input; the last pair's second tap may be asked for with a weight of zero.
template <class Value>
uint8_t weigh_pairs(const WeightPair* weights, int pairs, int precision_bits, const Value& value) {
  int32_t sum = 1 << (precision_bits - 1);
  for (int i = 0; i < pairs; ++i)
    sum += weights[i][0] * value(2 * i) + weights[i][1] * value(2 * i + 1);
  return static_cast<uint8_t>(std::clamp(sum >> precision_bits, 0, 255));
}

}  // namespace fovea::detail
