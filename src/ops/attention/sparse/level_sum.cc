// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/level_sum.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace fovea {
namespace {

// The first row of each block, and the end.
std::vector<int32_t> block_rows_of(const RowBlocks& rows) {
  std::vector<int32_t> begins;
  begins.reserve(static_cast<size_t>(rows.blocks()) + 1);
  for (int block = 0; block < rows.blocks(); ++block) begins.push_back(rows.first_row(block));
  begins.push_back(static_cast<int32_t>(rows.rows()));
  return begins;
}

// y = factor * x + (sum or nothing), row by row.
void weigh(Threads& threads, const RowBlocks& rows, int64_t width, float factor, const float* x,
           int64_t x_stride, const float* sum, float* y, int64_t y_stride) {
  threads.for_each(rows.rows(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t i = 0; i < width; ++i)
        y[row * y_stride + i] =
            factor * x[row * x_stride + i] + (sum != nullptr ? sum[row * width + i] : 0);
  });
}

}  // namespace

double LevelChoice::share(const RowBlocks& rows) const {
  return fine.share(rows) + medium.share(rows) + coarse.share(rows);
}

LevelChoice choose_levels(Threads& threads, const SparseAttention& given, int fine) {
  constexpr double kMediumOfFine = 2.5;
  const int blocks = given.rows->blocks();
  const int medium = std::min(blocks, static_cast<int>(std::ceil(kMediumOfFine * fine)));
  LevelChoice choice;
  choice.fine = choose_best_blocks(threads, given, fine, OtherBlocks::kNone);
  choice.medium =
      choose_best_blocks(threads, given, medium, OtherBlocks::kNone, BestBlocks::kPooled);
  choice.coarse.begins.push_back(0);
  for (int block = 0; block < blocks; ++block) {
    choice.coarse.ranges.push_back({0, blocks, true});
    choice.coarse.begins.push_back(block + 1);
  }
  return choice;
}

void attend_by_levels(Threads& threads, const SparseAttention& given, const LevelChoice& choice,
                      const LevelWeights& weights, float* out, int64_t out_stride) {
  FOVEA_CHECK(given.pooled != nullptr);
  const RowBlocks& rows = *given.rows;
  const int64_t width = int64_t{given.params->heads} * given.kv->head_dim;
  Buffer<float> sum(static_cast<size_t>(rows.rows() * width));
  Buffer<float> level(sum.size());
  attention_to_chosen(threads, given, choice.fine, level.data(), width);
  weigh(threads, rows, width, weights[0], level.data(), width, nullptr, sum.data(), width);
  attention_to_chosen(threads, given, choice.medium, level.data(), width);
  weigh(threads, rows, width, weights[1], level.data(), width, sum.data(), sum.data(), width);
  const PooledKeys blocks(threads, *given.kv, given.params->key_bias, block_rows_of(rows));
  SparseAttention coarse = given;
  coarse.pooled = &blocks;
  attention_to_chosen(threads, coarse, choice.coarse, level.data(), width);
  // The queries were read for the last time.
  weigh(threads, rows, width, weights[2], level.data(), width, sum.data(), out, out_stride);
}

int64_t level_sum_bytes(int64_t rows, int64_t blocks, int64_t q_width, int64_t kv_width) {
  const int64_t means = blocks * (2 * kv_width + 1);
  return (2 * rows * q_width + means) * static_cast<int64_t>(sizeof(float)) +
         (blocks + 1) * static_cast<int64_t>(sizeof(int32_t));
}

MeanKeySets mean_keys_of(const SparseAttention& given, const LevelChoice& choice) {
  const MeanKeySets fine = mean_keys_of(given, choice.fine);
  const MeanKeySets medium = mean_keys_of(given, choice.medium);
  const std::vector<int32_t> begins = block_rows_of(*given.rows);
  const float* bias = given.params->key_bias;
  std::vector<MeanKey> coarse;
  for (size_t block = 0; block + 1 < begins.size(); ++block) {
    const int32_t count = begins[block + 1] - begins[block];
    coarse.push_back({begins[block], count,
                      std::log(static_cast<double>(count)) +
                          (bias != nullptr ? double{bias[begins[block]]} : 0.0)});
  }
  MeanKeySets keys{.levels = kSumLevels, .sets = {}};
  for (size_t i = 0; i < fine.sets.size(); ++i) {
    keys.sets.push_back(fine.sets[i]);
    keys.sets.push_back(medium.sets[i]);
    keys.sets.push_back(coarse);
  }
  return keys;
}

}  // namespace fovea
