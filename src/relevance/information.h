// SPDX-License-Identifier: Apache-2.0
// Information: the Shannon entropy of a cell's lightness histogram.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "base/threads.h"
#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

// Lightness in 64 steps of 4: noise of one or two 8-bit steps, as in a sky, stays within a bin or
// two, and people's gaze agrees with 64 bins a little better than with 256 (NSS 0.80 against 0.77).
inline constexpr int kInformationBins = 64;
inline constexpr int kInformationShift = 2;
inline constexpr int kInformationBits = 6;  // the most a cell can hold; score 65535

// H = log2 n - (sum over bins of c log2 c) / n bits for a cell of n pixels, over kInformationBits.
// A cell on the right or lower edge counts the pixels that exist. A flat cell is exactly 0.
// The map has the grid of the level it is given.
Map measure_information(Threads& threads, const LevelView& level);

// The same in parts that may run beside other work: blocks [begin, end) of information_blocks(),
// each writing cells of its own. `map` has the level's grid.
int64_t information_blocks(Grid grid);
void measure_information_blocks(const LevelView& level, int64_t begin, int64_t end, Map& map);

// The specification, in plain loops; every value is equal, since both count in integers.
Map measure_information_reference(const LevelView& level);

// n log2 n for n pixels, in 1/65536. 0 log 0 and 1 log 1 are both 0. Only powers of two are exact,
// all others are irrational and so never near enough to a half for a libm's last bit to matter.
inline uint32_t plogp(size_t n) {
  const auto count = static_cast<double>(n);
  return n < 2 ? 0 : static_cast<uint32_t>(std::lround(count * std::log2(count) * 65536.0));
}
// The same for 0 to kCellPx^2 pixels.
const std::array<uint32_t, kCellPx * kCellPx + 1>& plogp_table();

// The score of a cell of `pixels` pixels whose bins' table values sum to `sum`.
inline uint16_t information_score(uint32_t pixels, uint32_t sum) {
  if (pixels == 0) return 0;  // nothing to see; no cell of a grid is so
  // Never negative: n log n of the whole exceeds that of any two parts by more than log2 n.
  const uint64_t held = plogp_table()[pixels] - sum;
  const uint64_t most = (uint64_t{pixels} * kInformationBits) << 16;
  return static_cast<uint16_t>((held * 65535 + most / 2) / most);
}

}  // namespace fovea
