// SPDX-License-Identifier: Apache-2.0
// Attention by its kind on a CPU. The table of kinds is apart: libraries for other devices have it
// too.
#include <optional>

#include "base/check.h"
#include "ops/attention/eight/attention_eight.h"
#include "ops/attention/sparse/kinds.h"
#include "ops/attention/sparse/level_sum.h"
#include "ops/attention/sparse/random_features.h"

namespace fovea {

ChosenKeys choose_by_kind(Threads& threads, const SparseAttention& given,
                          const SparseSettings& settings) {
  const RowBlocks& rows = *given.rows;
  switch (settings.kind) {
    case AttentionKind::kLocal3:
    case AttentionKind::kLocal5:
    case AttentionKind::kDilated:
      return choose_window(rows, window_of(settings.kind));
    case AttentionKind::kStrided:
      return choose_strided(rows, kStridedKeys);
    case AttentionKind::kTopBlocks:
      return choose_best_blocks(threads, given, blocks_in_full(rows, settings), OtherBlocks::kNone);
    case AttentionKind::kHierarchical:
      return choose_best_blocks(threads, given, blocks_in_full(rows, settings),
                                OtherBlocks::kPooled);
    case AttentionKind::kSharedBlocks:
      return choose_shared_blocks(threads, given, blocks_in_full(rows, settings));
    case AttentionKind::kLinformer:
      return choose_groups(rows);
    default:
      break;
  }
  FOVEA_CHECK(chooses_keys(settings.kind));
  return {};
}

void attend_by_kind(Threads& threads, SparseAttention given, const SparseSettings& settings,
                    float* out, int64_t out_stride) {
  if (given.rows->rows() == 0) return;
  if (settings.kind == AttentionKind::kDense)
    return attention(threads, given.q, given.q_stride, given.rows->rows(), *given.kv, *given.params,
                     out, out_stride);
  if (settings.kind == AttentionKind::kPerformer)
    return attend_by_features(threads, given, kRandomFeatures, out, out_stride);
  if (settings.kind == AttentionKind::kEight)
    return attention_eight(threads, given.q, given.q_stride, given.rows->rows(), *given.kv,
                           *given.params, eight_options(given.kv->head_dim), out, out_stride);
  std::optional<PooledKeys> pooled;
  if (row_of(settings.kind).by_blocks || settings.kind == AttentionKind::kLinformer)
    given.pooled = &pooled.emplace(threads, *given.kv, given.params->key_bias, *given.rows);
  if (settings.kind == AttentionKind::kLevelSum)
    return attend_by_levels(threads, given,
                            choose_levels(threads, given, blocks_in_full(*given.rows, settings)),
                            settings.level_weights, out, out_stride);
  attention_to_chosen(threads, given, choose_by_kind(threads, given, settings), out, out_stride);
}

}  // namespace fovea
