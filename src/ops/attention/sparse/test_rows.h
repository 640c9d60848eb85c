// SPDX-License-Identifier: Apache-2.0
// What the tests of sparse attention share: rows of a picture with random queries, keys and values.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "ops/attention/sparse/chosen_keys.h"
#include "ops/test_plain_keys.h"
#include "ops/test_values.h"

namespace fovea::test {

struct SparseShape {
  const char* name;
  std::vector<GridPlace> places;
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 8;
  bool bias = false;
  int page_tokens = 0;
};

inline std::vector<GridPlace> grid(int width, int height, int level = 0) {
  std::vector<GridPlace> places;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) places.push_back({level, x, y});
  return places;
}

// As a plan leaves it: fine places with gaps, over all of a coarser level.
inline std::vector<GridPlace> mixed() {
  std::vector<GridPlace> places = grid(9, 7, 2);
  for (int i = 0; i < 130; ++i) places.push_back({0, i * 7 % 36, i * 7 / 36});
  std::shuffle(places.begin(), places.end(), std::mt19937(5));
  return places;
}

inline const std::vector<SparseShape>& shapes() {
  static const std::vector<SparseShape> kAll = {
      {"one row", grid(1, 1)},
      {"a block", grid(8, 8), 2, 2, 20},
      {"odd", grid(17, 5), 3, 1, 12, true},
      {"two heads a key", grid(19, 25), 4, 2, 36, false, 16},
      {"a tower's", grid(24, 24), 2, 2, 64, false, 64},
      {"a row of rows", grid(300, 1), 1, 1, 72},
      {"mixed levels", mixed(), 6, 2, 64, true, 64},
  };
  return kAll;
}

// Rows in the order of their blocks, with random queries, keys and values.
struct SparseCase {
  RowBlocks rows;
  PlainKeys kv;
  PagedKeys view;
  std::vector<float> q;
  std::vector<float> bias;
  AttentionParams params;
  std::unique_ptr<PooledKeys> pooled;
  int64_t width = 0;

  SparseCase(const SparseShape& shape, std::mt19937& random)
      : rows(block_rows(shape.places)), kv(shape.kv_heads, shape.head_dim, shape.page_tokens) {
    width = int64_t{shape.heads} * shape.head_dim;
    const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_dim;
    q = random_values(static_cast<size_t>(rows.rows() * q_stride()), random, 2);
    const auto k = random_values(static_cast<size_t>(rows.rows() * kv_width), random, 2);
    const auto v = random_values(static_cast<size_t>(rows.rows() * kv_width), random);
    kv.append(k.data(), kv_width, v.data(), kv_width, rows.rows());
    view = kv.view();
    for (const GridPlace& place : rows.places)
      if (shape.bias) bias.push_back(static_cast<float>(place.level) * std::log(4.0f));
    params = {.heads = shape.heads,
              .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
              .key_bias = shape.bias ? bias.data() : nullptr};
    Threads one(1);
    pooled = std::make_unique<PooledKeys>(one, view, params.key_bias, rows);
  }
  SparseCase(const SparseCase&) = delete;
  SparseCase& operator=(const SparseCase&) = delete;

  int64_t q_stride() const { return width + 3; }
  SparseAttention given() const {
    return {q.data(), q_stride(), &view, &params, &rows, pooled.get()};
  }
};

}  // namespace fovea::test
