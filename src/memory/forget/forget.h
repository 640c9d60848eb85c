// SPDX-License-Identifier: Apache-2.0
// forget: keys of visual tokens + how much text attends to them -> the rows that stay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"
#include "memory/forget/kept_rows.h"
#include "memory/forget/policies.h"
#include "ops/key_format.h"
#include "ops/paged_keys.h"

namespace fovea {

// The visual tokens in one layer.
struct ForgetLayer {
  PagedKeys keys;
  int64_t first_row = 0;  // of the row of ForgetScene::at, what is added to it
  // By policies that take them (ForgetPolicyRow::by_attention):
  std::span<const float> mass;  // [tokens]: how much the text attends to each
  double density = 1;  // the share of (query, head, key) whose weight is not far below the greatest
};

// Two tokens that lie side by side in an image.
struct TokenLink {
  int32_t a = 0;
  int32_t b = 0;
};

struct ForgetScene {
  std::span<const int64_t> at;          // [tokens]: their rows, ascending
  std::span<const int64_t> image_ends;  // [images]: ascending; the last is the number of tokens
  std::span<const TokenLink> links;     // for merging: they connect the tokens of an image
  std::span<const ForgetLayer> layers;

  int64_t tokens() const { return static_cast<int64_t>(at.size()); }
  // Into out[head_dim].
  void read_key(const ForgetLayer& layer, int head, int64_t token, float* out) const {
    const int64_t row = layer.first_row + at[static_cast<size_t>(token)];
    widen_rows(layer.keys.format, layer.keys.stored_key(head, row), 1, layer.keys.head_dim, out);
  }
  void read_value(const ForgetLayer& layer, int head, int64_t token, float* out) const {
    const int64_t row = layer.first_row + at[static_cast<size_t>(token)];
    widen_rows(layer.keys.format, layer.keys.stored_value(head, row), 1, layer.keys.head_dim, out);
  }
};

// The rows of each layer that stay. They are `keep` of all, to the nearest whole row of the sum
// over layers, and one at least in each layer; the text's rows are not its business.
std::vector<KeptRows> choose_rows(Threads& threads, const ForgetScene& scene,
                                  const ForgetSettings& settings);
// Its specification, in f64 and plain loops. Merging may differ where two costs do by rounding.
std::vector<KeptRows> choose_rows_reference(const ForgetScene& scene,
                                            const ForgetSettings& settings);

// How many rows each layer keeps of `tokens`, so that their sum is as said above: by how much each
// needs, but no fewer than a quarter of an equal part and no more than there are.
std::vector<int64_t> layer_budgets(std::span<const double> needs, int64_t tokens, double keep);
std::vector<int64_t> layer_budgets_reference(std::span<const double> needs, int64_t tokens,
                                             double keep);

// A layer that needs nothing beside others counts for this share of what the first of them needs,
// so that it can take what they have no use for.
inline constexpr double kLeastNeed = 1e-6;
std::vector<double> layer_needs(std::span<const double> needs);

// Of a layer's rows, those that sparse-vlm makes of tokens that would go; how many tokens each is
// made of at most, and for all of them in all.
inline constexpr double kRecycledShare = 0.1;
inline constexpr int64_t kTokensARecycledRow = 4;
inline constexpr int64_t kMostRecycledTokens = 128;
// How many neighbours say how dense the keys lie around one.
inline constexpr int64_t kDensityNeighbours = 5;
// Of an image, its first tokens stay in a window: text attends to them as to nothing in particular.
inline constexpr int64_t kWindowFirst = 4;

// What the policies and their specification agree on: a score for each token, drawn at random.
uint64_t random_score(uint64_t seed, int64_t token);

}  // namespace fovea
