// SPDX-License-Identifier: Apache-2.0
// Hierarchical attention as a weighted sum of levels, with a softmax for each: every 8x8 block by
// its mean (coarse), of the better blocks each 4x4 by its mean (medium), of the best ones each row
// (fine). Weights are meant to be learned; mean_keys.h has the gradients.
//
// The other form, one softmax over rows and means (OtherBlocks::kPooled), is near to dense
// attention without training; this one is not: each level's weights add up to one, whatever the
// level has to do with the query.
#pragma once

#include <array>
#include <cstdint>

#include "ops/attention/sparse/chosen_keys.h"
#include "ops/attention/sparse/mean_keys.h"

namespace fovea {

// Fine, medium, coarse.
inline constexpr int kSumLevels = 3;
using LevelWeights = std::array<float, kSumLevels>;
// Where none were learned.
inline constexpr LevelWeights kEqualLevels = {1.0f / 3, 1.0f / 3, 1.0f / 3};

struct LevelChoice {
  ChosenKeys fine;    // rows
  ChosenKeys medium;  // groups
  ChosenKeys coarse;  // blocks: a pooled key is the mean of a block here

  // The share of all queries x keys that is computed.
  double share(const RowBlocks& rows) const;
};

// The `fine` best blocks (choose_best_blocks()) by their rows, and two and a half times as many,
// which hold those, by their groups. `given` has its pooled keys.
LevelChoice choose_levels(Threads& threads, const SparseAttention& given, int fine);

// The output may be the queries. `given` has its pooled keys.
void attend_by_levels(Threads& threads, const SparseAttention& given, const LevelChoice& choice,
                      const LevelWeights& weights, float* out, int64_t out_stride);
// What it works in, besides choices and the pooled keys of groups.
int64_t level_sum_bytes(int64_t rows, int64_t blocks, int64_t q_width, int64_t kv_width);

// For the specification, attend_to_means(), and its gradients.
MeanKeySets mean_keys_of(const SparseAttention& given, const LevelChoice& choice);

}  // namespace fovea
