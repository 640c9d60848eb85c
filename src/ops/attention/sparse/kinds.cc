// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"

namespace fovea {
namespace {

constexpr int kDilation = 4;

constexpr AttentionKindRow kKinds[] = {
    {"dense", "every patch", "every token before it", AttentionKind::kDense, false},
    {"local3", "the 3x3 patches around it", nullptr, AttentionKind::kLocal3, false},
    {"local5", "the 5x5 patches around it", nullptr, AttentionKind::kLocal5, false},
    {"dilated", "5x5 patches around it, every 4th in x and in y", nullptr, AttentionKind::kDilated,
     false},
    {"strided", "every 8th patch, and its own 8x8",
     "its block of 64 tokens, the one before, and every 4th", AttentionKind::kStrided, false},
    {"top-blocks", "the 8x8 blocks whose mean keys fit best",
     "all text, and the blocks of 64 visual tokens whose mean keys fit best",
     AttentionKind::kTopBlocks, true},
    {"hierarchical", "the best 8x8 blocks in full, the others by the mean of each 4x4", nullptr,
     AttentionKind::kHierarchical, true},
    {"level-sum",
     "all 8x8 by means, the better by means of each 4x4, the best in full, a third each", nullptr,
     AttentionKind::kLevelSum, true},
    {"linformer", "the mean of each 4x4", nullptr, AttentionKind::kLinformer, false},
    {"performer", "all patches by 256 random features", nullptr, AttentionKind::kPerformer, false},
    {"window", nullptr, "its block of 64 tokens, the 7 before, and the first",
     AttentionKind::kWindow, false},
    {"prefix", nullptr, "every token before it; a visual one also those after it in its image",
     AttentionKind::kPrefix, false},
    {"shared-blocks",
     "the 8x8 blocks that all patches attend to most in full, the others by the mean of each 4x4",
     nullptr, AttentionKind::kSharedBlocks, true},
    {"eight", "every patch, of queries, keys and values in eight bits (e4m3)", nullptr,
     AttentionKind::kEight, false},
};

}  // namespace

std::span<const AttentionKindRow> attention_kinds() { return kKinds; }

const AttentionKindRow& row_of(AttentionKind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::vector<AttentionKindRow> attention_kinds(AttentionPlace place) {
  std::vector<AttentionKindRow> rows;
  for (const AttentionKindRow& row : kKinds)
    if (row.words(place) != nullptr) rows.push_back(row);
  return rows;
}

Result<AttentionKind> find_attention_kind(std::string_view name, AttentionPlace place) {
  std::vector<std::string_view> names;
  bool elsewhere = false;
  for (const AttentionKindRow& row : kKinds) {
    const bool is_here = row.words(place) != nullptr;
    if (row.name == name && is_here) return row.kind;
    elsewhere = elsewhere || row.name == name;
    if (is_here) names.emplace_back(row.name);
  }
  const bool of_tower = place == AttentionPlace::kTower;
  const std::string what = elsewhere ? fmt::format("attention {} is for {} alone", in_quotes(name),
                                                   of_tower ? "the language model" : "the tower")
                                     : fmt::format("there is no attention {}", in_quotes(name));
  return bad_input(fmt::format("{}: choose one of {}", what, fmt::join(names, ", ")));
}

bool chooses_keys(AttentionKind kind) {
  return row_of(kind).patch_words != nullptr && kind != AttentionKind::kDense &&
         kind != AttentionKind::kPerformer && kind != AttentionKind::kLevelSum &&
         kind != AttentionKind::kEight;
}

bool sees_own_block(AttentionKind kind) {
  return chooses_keys(kind) && kind != AttentionKind::kLinformer;
}

KeyWindow window_of(AttentionKind kind) {
  if (kind == AttentionKind::kLocal3) return {.radius = 1};
  if (kind == AttentionKind::kLocal5) return {.radius = 2};
  if (kind == AttentionKind::kDilated) return {.radius = 2, .step = kDilation};
  return {};
}

int blocks_in_full(const RowBlocks& rows, const SparseSettings& settings) {
  constexpr int64_t kManyRows = 8192;
  double share = settings.share;
  if (share <= 0) share = rows.rows() < kManyRows ? 0.125 : 0.0625;
  return std::max(1, static_cast<int>(std::ceil(share * rows.blocks())));
}

}  // namespace fovea
