// SPDX-License-Identifier: Apache-2.0
// Figure: what stands out from its ground, by Boolean maps. Every channel is cut at every
// threshold; of the pixels above it, and of those not above it, the ones that are not connected
// with the picture's border are surrounded: a figure on a ground.
//
//   figure(p) = sum over channels, thresholds t = 0..254 and both sides of
//               [p is surrounded] * round(4096 / sqrt(n)),  n = pixels surrounded at that cut
//
// Pixels are connected with their four neighbours. The weight gives every cut the same Euclidean
// length, so that a small figure counts as much as a large one.
//
// No cut is made in fact. Let R(p) be the largest t such that p reaches the border over values of
// at least t: then p is surrounded exactly at the thresholds R(p) <= t < value(p). R is a
// morphological reconstruction, two running maxima a pixel and sweep, for all thresholds at once;
// the other side is the same on 255 - value. n comes from a histogram of R and value, the sum from
// a table.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fovea/words.h"
#include "relevance/texture.h"

namespace fovea {

inline constexpr size_t kFigureChannels = 5;
// The most pixels a picture may have: 5 channels * 255 cuts * 4096, summed over 25 * 25 pixels by
// the blur that follows, fit 32 bits for any number; 2^14 bound the time.
inline constexpr int64_t kFigurePixels = int64_t{1} << 14;

// A pixel's channels, then zeros: eight bytes, so that a pixel is moved as one word.
using ChannelValues = std::array<uint8_t, 8>;

// channels: [height][width]
Plane measure_figure(Size size, const std::vector<ChannelValues>& channels);
// The specification: cuts and flood fills; every value is equal.
Plane measure_figure_reference(Size size, const std::vector<ChannelValues>& channels);

// What one of n surrounded pixels counts.
uint32_t figure_weight(int64_t n);

}  // namespace fovea
