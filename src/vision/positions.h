// SPDX-License-Identifier: Apache-2.0
// Where patches stand: the table of learned positions, read between its entries, and the angles of
// the rotary positions. A patch of a coarse level stands between those of level 0, so both take
// fractions; at whole places they are what transformers computes, rounding included.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "fovea/words.h"
#include "patches/patches.h"

namespace fovea {

// The four entries of the table around a place (above left, above right, below left, below right)
// and how much each counts.
struct PositionTaps {
  std::array<int, 4> index{};
  std::array<float, 4> weight{};
};

// The table is a square of `side` entries a side, stretched over the canvas' level-0 patches so
// that its corners are theirs.
PositionTaps position_taps(const PatchPlace& place, Size canvas, int side);

// x[p] += sum over taps of weight * table[index]; table: [side * side or more][width], x:
// [places][width].
void add_positions(Threads& threads, std::span<const PatchPlace> places, Size canvas,
                   const float* table, int side, int64_t width, float* x);

// x[p] += table[level of the patch], the last row for levels beyond it; table: [levels][width].
// Nothing where `levels` is 0.
void add_levels(Threads& threads, std::span<const PatchPlace> places, const float* table,
                int levels, int64_t width, float* x);

// inv_freq[i] = 1 / theta^(2i / (head_dim / 2)) for i < head_dim / 4, in f32 as torch has it.
inline std::vector<float> tower_frequencies(int head_dim, double theta) {
  const int spatial = head_dim / 2;  // half of the values rotate by the row, half by the column
  const auto base = static_cast<double>(static_cast<float>(theta));
  std::vector<float> frequencies(static_cast<size_t>(head_dim / 4));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(spatial);
    frequencies[i] = 1.0f / static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return frequencies;
}

// Of each patch: first those of its row, then those of its column. [patches][head_dim / 2].
struct RotaryAngles {
  Buffer<float> cos;
  Buffer<float> sin;
};

// angle[i] = row * theta^(-2i / (head_dim / 2)) for i < head_dim / 4, then likewise for the column.
RotaryAngles rotary_angles(Threads& threads, std::span<const PatchPlace> places, int head_dim,
                           double theta);

// The specifications, in f64: every entry of the table counts by its distance.
void add_positions_reference(std::span<const PatchPlace> places, Size canvas, const float* table,
                             int side, int64_t width, float* x);
RotaryAngles rotary_angles_reference(std::span<const PatchPlace> places, int head_dim,
                                     double theta);

}  // namespace fovea
