// SPDX-License-Identifier: Apache-2.0
// Detail: the energy a cell loses when it is read at a coarser level.
//
// For a level-k pixel P and its children C at level k-1 (those that exist: replicated edges count
// once), e(P) = sum over C and RGB of area(C) * (C - P)^2, where area(C) is the number of canvas
// pixels C stands for: 4^(k-1), less on the right and lower edge. Then
//   lost[l](cell) = sum over k = 1..l of e(P) for all P of level k inside the cell.
//
// With exact means this is the squared error between the canvas and level l drawn at its size: the
// deviations within a parent sum to 0, so the levels' errors are orthogonal. Levels are rounded to
// 8 bits, which moves a mean by at most 1/2: for a cell of n values the two differ by at most
// sqrt(n) (l-1) sqrt(l * lost), so level 1 is exact and photographs are within a percent. Where
// children of unequal area share a parent (an edge whose size is not a multiple of 2^l) the parent
// is their plain mean and the sum is an estimate.
#pragma once

#include <cstdint>

#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {

// The specification, in plain loops; measure_detail gives equal values.
Detail measure_detail_reference(const Pyramid& pyramid);

// The canvas pixels along one side that pixel `index` of `level` stands for.
inline uint64_t covered_px(int index, int level, int canvas_side_px) {
  const int64_t first_px = int64_t{index} << level;
  return static_cast<uint64_t>(std::min(int64_t{1} << level, canvas_side_px - first_px));
}

}  // namespace fovea
