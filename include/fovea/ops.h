// SPDX-License-Identifier: Apache-2.0
// Single operations on the CPU, for those who bring a model of their own. fovea.h does not need it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

// Where a row of attention stands: in the grid of its level.
struct RowInGrid {
  int32_t level = 0;
  int32_t row = 0;
  int32_t col = 0;
};

// Rows [begin, end) of a sequence that were encoded together, as those of an image.
struct RowSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

// Attention of rows to themselves: dense arrays of float32.
struct AttentionRows {
  const float* q = nullptr;  // [rows][heads][head_dim]
  const float* k = nullptr;  // [rows][kv_heads][head_dim]
  const float* v = nullptr;  // [rows][kv_heads][head_dim]
  float* out = nullptr;      // [rows][heads][head_dim]
  int64_t rows = 0;
  int heads = 0;  // a multiple of kv_heads, which they share in order
  int kv_heads = 0;
  int head_dim = 0;  // a multiple of 4, at most 256
};

struct AttentionOptions {
  std::string kind = "dense";  // one of attention_choices()
  bool causal = false;         // by the language model's kinds; else by the tower's
  double share = 0;            // of the blocks that are seen in full; 0: as the kind has it
  float scale = 1;             // of q . k
  // One for each row, none twice; the tower's kinds but dense want them.
  std::span<const RowInGrid> places;
  std::span<const RowSpan> images;  // of a sequence, in order, apart from each other
  std::span<const float>
      level_bias;  // added to the scores of keys of level 0, 1, ...; may be empty
  // What "level-sum" multiplies fine, medium and coarse by: three, or none for a third of each.
  std::span<const float> sum_weights;
  int threads = 0;  // 0: the cores this process may use
};

Status attend(const AttentionRows& rows, const AttentionOptions& options);
// What attend() checks of them before it computes, but for what its kernels ask of head_dim; for
// those who compute it elsewhere. The arrays of `rows` are not read.
Status check_attention(const AttentionRows& rows, const AttentionOptions& options);

// The levels of a canvas, each half of the one before by an exact 2x2 box filter; `levels` counts
// level 0, 0 means: until one cell covers the canvas.
Result<std::vector<Image>> levels_of(Image canvas, int levels = 0, int threads = 0);

}  // namespace fovea
