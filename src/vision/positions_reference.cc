// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "vision/positions.h"

namespace fovea {
namespace {

// Where a place of `extent` falls among the `side` entries of one direction.
double among_entries(double place, int extent, int side) {
  return extent > 1 ? place * (side - 1) / (extent - 1) : 0;
}

// How much an entry counts: all at its own place, nothing from the next one on.
double counts(double at, int entry) { return std::max(0.0, 1 - std::abs(at - entry)); }

}  // namespace

void add_positions_reference(std::span<const PatchPlace> places, Size canvas, const float* table,
                             int side, int64_t width, float* x) {
  for (size_t p = 0; p < places.size(); ++p) {
    const double row = among_entries(places[p].row, canvas.height_px / kPatchPx, side);
    const double col = among_entries(places[p].col, canvas.width_px / kPatchPx, side);
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int r = 0; r < side; ++r)
        for (int s = 0; s < side; ++s)
          sum += counts(row, r) * counts(col, s) * table[(int64_t{r} * side + s) * width + c];
      float& out = x[static_cast<int64_t>(p) * width + c];
      out = static_cast<float>(out + sum);
    }
  }
}

RotaryAngles rotary_angles_reference(std::span<const PatchPlace> places, int head_dim,
                                     double theta) {
  const int half = head_dim / 2;
  RotaryAngles angles{Buffer<float>(places.size() * half), Buffer<float>(places.size() * half)};
  for (size_t p = 0; p < places.size(); ++p) {
    for (int i = 0; i < half; ++i) {
      const double place = i < half / 2 ? places[p].row : places[p].col;
      const double angle = place * std::pow(theta, -2.0 * (i % (half / 2)) / half);
      angles.cos[p * half + i] = static_cast<float>(std::cos(angle));
      angles.sin[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return angles;
}

}  // namespace fovea
