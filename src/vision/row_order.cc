// SPDX-License-Identifier: Apache-2.0
#include "vision/row_order.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace fovea {
namespace {

// The first patch p of a cell of level l stands at p * 2^l + (2^l - 1) / 2, or less where its
// middle is beyond the canvas, but by less than half a patch; the others may all be clamped to one
// place.
std::vector<GridPlace> grid_places(const std::vector<PatchPlace>& places) {
  std::vector<GridPlace> grid;
  grid.reserve(places.size());
  for (size_t cell = 0; cell < places.size(); cell += kPatchesPerCell) {
    const PatchPlace& first = places[cell];
    const auto side = static_cast<float>(1 << first.level);
    const auto index = [&](float at) {
      return static_cast<int32_t>(std::lround((at - (side - 1) / 2) / side));
    };
    for (int i = 0; i < kPatchesPerCell; ++i)
      grid.push_back({first.level, index(first.col) + i % 2, index(first.row) + i / 2});
  }
  return grid;
}

// Row i of x becomes what row from[i] was, without memory for all of them.
void permute_rows(const std::vector<int32_t>& from, int64_t width, float* x) {
  std::vector<bool> done(from.size());
  std::vector<float> first(static_cast<size_t>(width));
  const auto row = [&](size_t i) { return x + static_cast<int64_t>(i) * width; };
  for (size_t start = 0; start < from.size(); ++start) {
    if (done[start]) continue;
    std::copy_n(row(start), width, first.data());
    size_t i = start;
    for (; static_cast<size_t>(from[i]) != start; i = static_cast<size_t>(from[i])) {
      std::copy_n(row(static_cast<size_t>(from[i])), width, row(i));
      done[i] = true;
    }
    std::copy_n(first.data(), width, row(i));
    done[i] = true;
  }
}

// Of each `step`-th row: where it is found, by steps.
std::vector<int32_t> inverse(const std::vector<int32_t>& order, int step) {
  std::vector<int32_t> found(order.size() / static_cast<size_t>(step));
  for (size_t i = 0; i < found.size(); ++i)
    found[static_cast<size_t>(order[i * static_cast<size_t>(step)] / step)] =
        static_cast<int32_t>(i);
  return found;
}

}  // namespace

RowOrder::RowOrder(const AttentionSchedule& attention, const std::vector<PatchPlace>& given)
    : given_(given) {
  if (attention.is_dense()) return;
  rows_ = block_rows(grid_places(given));
  for (const int32_t row : rows_.order) places_.push_back(given[static_cast<size_t>(row)]);
}

void RowOrder::sort(float* x, int64_t width) const {
  if (!is_as_given()) permute_rows(rows_.order, width, x);
}

void RowOrder::unsort_patches(float* x, int64_t width) const {
  if (!is_as_given()) permute_rows(inverse(rows_.order, 1), width, x);
}

void RowOrder::unsort_cells(float* x, int64_t width) const {
  if (!is_as_given()) permute_rows(inverse(rows_.order, kPatchesPerCell), width, x);
}

}  // namespace fovea
