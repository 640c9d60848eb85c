// SPDX-License-Identifier: Apache-2.0
// Which kind of attention each layer has, and how people write it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "ops/attention/sparse/kinds.h"

namespace fovea {

// One kind for all layers, or several, each for an equal part of them, the first ones first.
class AttentionSchedule {
 public:
  AttentionSchedule() = default;                // dense
  AttentionSchedule(const SparseSettings& all)  // NOLINT: implicit
      : AttentionSchedule(std::vector<SparseSettings>{all}) {}
  AttentionSchedule(AttentionKind kind, double share)
      : AttentionSchedule(SparseSettings{kind, share}) {}
  explicit AttentionSchedule(std::vector<SparseSettings> parts);

  bool is_dense() const { return parts_.empty(); }
  bool has(AttentionKind kind) const;
  bool chooses_blocks() const;  // in some layer
  SparseSettings of(int layer, int layers) const;
  std::span<const SparseSettings> parts() const { return parts_; }  // none where all are dense
  // As parse_attention() reads it; empty: dense. Two that compute the same have the same text.
  std::string text() const;

  bool operator==(const AttentionSchedule&) const = default;

 private:
  std::vector<SparseSettings> parts_;  // empty where all are dense
};

// Reads "hierarchical", "dense,hierarchical:0.1" and the like: names of kinds with commas between,
// each with the share of blocks that are seen in full behind a colon where it takes one, and of
// level-sum the weights of fine, medium and coarse behind one more: "level-sum:0.1:0.5/0.3/0.2".
// Empty: dense. An error names what is wrong, and what there is.
Result<AttentionSchedule> parse_attention(std::string_view text, AttentionPlace place, int layers);

}  // namespace fovea
