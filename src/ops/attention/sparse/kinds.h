// SPDX-License-Identifier: Apache-2.0
// The kinds of attention by name. Adding one: its choice in chosen_keys.h, its name here, a row in
// the table; tests, bench, settings and help walk the table.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "ops/attention/sparse/chosen_keys.h"
#include "ops/attention/sparse/level_sum.h"

namespace fovea {

enum class AttentionKind {
  kDense,
  kLocal3,
  kLocal5,
  kDilated,
  kStrided,
  kTopBlocks,
  kHierarchical,
  kLevelSum,
  kLinformer,
  kPerformer,
  kWindow,
  kPrefix,
  kSharedBlocks,
  kEight
};

// Where attention is computed.
enum class AttentionPlace { kTower, kText };

struct AttentionKindRow {
  const char* name;
  const char* patch_words;  // what a patch sees; null: not for the tower
  const char* token_words;  // what a token sees; null: not for the language model
  AttentionKind kind;
  bool by_blocks;  // chosen by mean keys; `share` says how many

  const char* words(AttentionPlace place) const {
    return place == AttentionPlace::kTower ? patch_words : token_words;
  }
};

// All of them, and a kind's own row.
std::span<const AttentionKindRow> attention_kinds();
const AttentionKindRow& row_of(AttentionKind kind);
// Those that a place has.
std::vector<AttentionKindRow> attention_kinds(AttentionPlace place);
Result<AttentionKind> find_attention_kind(std::string_view name,
                                          AttentionPlace place = AttentionPlace::kTower);

// How much of a picture is seen in full. 0: an eighth of the blocks, from 8,192 rows on a
// sixteenth, of which each is then twice as many.
struct SparseSettings {
  AttentionKind kind = AttentionKind::kDense;
  double share = 0;                           // of the blocks, 0 to 1
  LevelWeights level_weights = kEqualLevels;  // of kLevelSum

  bool operator==(const SparseSettings&) const = default;
};

// Whether patches have keys chosen for them by this kind, for one softmax; and whether their own
// block is among them.
bool chooses_keys(AttentionKind kind);
bool sees_own_block(AttentionKind kind);

// The window of a kind that has one, radius 0 where it has none; and which rows `strided` sees.
KeyWindow window_of(AttentionKind kind);
inline constexpr int kStridedKeys = 8;

// attention() by its kind, of rows to themselves. `given.pooled` is made here where it is needed.
// The output may be the queries, but of kDense.
void attend_by_kind(Threads& threads, SparseAttention given, const SparseSettings& settings,
                    float* out, int64_t out_stride);

// How many blocks are seen in full by these settings.
int blocks_in_full(const RowBlocks& rows, const SparseSettings& settings);
// The choice that it makes, where it chooses_keys(); `given` has its pooled keys.
ChosenKeys choose_by_kind(Threads& threads, const SparseAttention& given,
                          const SparseSettings& settings);

}  // namespace fovea
