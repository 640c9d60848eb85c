// SPDX-License-Identifier: Apache-2.0
#include "vision/positions.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace fovea {
namespace {

constexpr int64_t kChunk = 16;

// The two entries around a place in one direction.
struct AxisTaps {
  std::array<int, 2> index{};
  std::array<float, 2> weight{};
};

// transformers: src = index * (side - 1) / max(size - 1, 1), each step rounded to f32, and weights
// 1 - |src - tap|. The order of the steps is kept, since it decides the last bit.
AxisTaps axis_taps(float place, int extent, int side) {
  const float at =
      place * static_cast<float>(side - 1) / static_cast<float>(std::max(extent - 1, 1));
  const float floor = std::floor(at);
  const int first = static_cast<int>(floor);
  AxisTaps taps;
  for (size_t i = 0; i < 2; ++i) {
    taps.index[i] = std::clamp(first + static_cast<int>(i), 0, side - 1);
    taps.weight[i] = std::max(0.0f, 1.0f - std::abs(at - floor - static_cast<float>(i)));
  }
  return taps;
}

}  // namespace

PositionTaps position_taps(const PatchPlace& place, Size canvas, int side) {
  const AxisTaps row = axis_taps(place.row, canvas.height_px / kPatchPx, side);
  const AxisTaps col = axis_taps(place.col, canvas.width_px / kPatchPx, side);
  PositionTaps taps;
  for (size_t i = 0; i < 4; ++i) {
    taps.index[i] = row.index[i / 2] * side + col.index[i % 2];
    taps.weight[i] = row.weight[i / 2] * col.weight[i % 2];
  }
  return taps;
}

void add_positions(Threads& threads, std::span<const PatchPlace> places, Size canvas,
                   const float* table, int side, int64_t width, float* x) {
  threads.for_each(static_cast<int64_t>(places.size()), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const PositionTaps taps = position_taps(places[static_cast<size_t>(p)], canvas, side);
      std::array<const float*, 4> entry{};
      for (size_t i = 0; i < 4; ++i) entry[i] = table + taps.index[i] * width;
      const auto [w0, w1, w2, w3] = taps.weight;
      float* out = x + p * width;
      for (int64_t c = 0; c < width; ++c)
        out[c] += w0 * entry[0][c] + w1 * entry[1][c] + w2 * entry[2][c] + w3 * entry[3][c];
    }
  });
}

void add_levels(Threads& threads, std::span<const PatchPlace> places, const float* table,
                int levels, int64_t width, float* x) {
  if (levels == 0) return;
  threads.for_each(static_cast<int64_t>(places.size()), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int level = std::min(places[static_cast<size_t>(p)].level, levels - 1);
      if (level == 0) continue;  // its row is zero
      const float* row = table + level * width;
      for (int64_t c = 0; c < width; ++c) x[p * width + c] += row[c];
    }
  });
}

RotaryAngles rotary_angles(Threads& threads, std::span<const PatchPlace> places, int head_dim,
                           double theta) {
  FOVEA_CHECK(head_dim % 4 == 0);
  const std::vector<float> frequencies = tower_frequencies(head_dim, theta);
  const size_t quarter = frequencies.size();
  const size_t values = places.size() * 2 * quarter;
  RotaryAngles angles{Buffer<float>(values), Buffer<float>(values)};
  threads.for_each(static_cast<int64_t>(places.size()), kChunk, [&](int64_t begin, int64_t end) {
    size_t at = static_cast<size_t>(begin) * 2 * quarter;
    for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
      for (const float place : {places[p].row, places[p].col}) {
        for (const float frequency : frequencies) {
          const float angle = place * frequency;
          angles.cos[at] = std::cos(angle);
          angles.sin[at] = std::sin(angle);
          ++at;
        }
      }
    }
  });
  return angles;
}

}  // namespace fovea
