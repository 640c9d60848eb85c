// SPDX-License-Identifier: Apache-2.0
// The order in which a tower keeps its rows while it encodes.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/sparse/schedule.h"
#include "patches/patches.h"

namespace fovea {

// As the patches come where all attention is dense; else by blocks, so that neighbours lie
// together. The four patches of a cell follow each other in both.
class RowOrder {
 public:
  // `given` must outlive it.
  RowOrder(const AttentionSchedule& attention, const std::vector<PatchPlace>& given);

  bool is_as_given() const { return rows_.order.empty(); }
  const RowBlocks* rows() const { return is_as_given() ? nullptr : &rows_; }
  const std::vector<PatchPlace>& places() const { return is_as_given() ? given_ : places_; }

  // Puts the rows of x, [patches][width], from the order of the patches into this one.
  void sort(float* x, int64_t width) const;
  // The other way: [patches][width], or [cells][width], the tokens of their cells.
  void unsort_patches(float* x, int64_t width) const;
  void unsort_cells(float* x, int64_t width) const;

 private:
  const std::vector<PatchPlace>& given_;
  RowBlocks rows_;                  // empty: as given
  std::vector<PatchPlace> places_;  // in the order of rows_
};

}  // namespace fovea
