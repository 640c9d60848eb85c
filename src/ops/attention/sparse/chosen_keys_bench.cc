// SPDX-License-Identifier: Apache-2.0
// Times each kind of attention beside dense attention, in the shape of a 2B model's tower (heads
// of 64; four of its sixteen heads, which are all alike), the choice included, and says how far it
// is from dense attention. Values are random: no place has to do with another, which is the hardest
// that a kind can meet.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/closeness.h"
#include "ops/attention/eight/attention_eight.h"
#include "ops/attention/sparse/kinds.h"
#include "ops/attention/sparse/level_sum.h"
#include "ops/attention/sparse/random_features.h"
#include "ops/test_plain_keys.h"

namespace fovea {
namespace {

constexpr int kHeads = 4;
constexpr int kHeadDim = 64;
constexpr int64_t kWidth = int64_t{kHeads} * kHeadDim;

std::vector<float> random_values(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// A picture of side x side patches.
struct Picture {
  RowBlocks rows;
  PlainKeys kv{kHeads, kHeadDim};
  PagedKeys view;
  std::vector<float> q;
  AttentionParams params{.heads = kHeads, .scale = 1 / std::sqrt(static_cast<float>(kHeadDim))};

  explicit Picture(int side) {
    std::vector<GridPlace> places;
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x) places.push_back({0, x, y});
    rows = block_rows(places);
    std::mt19937 random(3);
    const auto values = static_cast<size_t>(rows.rows() * kWidth);
    q = random_values(values, random);
    kv.append(random_values(values, random).data(), kWidth, random_values(values, random).data(),
              kWidth, rows.rows());
    view = kv.view();
  }
};

// One block in the middle: all would take minutes.
int block_of(const Picture& picture) { return picture.rows.blocks() / 2; }

std::span<const float> rows_of(const Picture& picture, const std::vector<float>& values) {
  const int block = block_of(picture);
  const auto first = static_cast<size_t>(picture.rows.first_row(block) * kWidth);
  const auto end = static_cast<size_t>(picture.rows.end_row(block) * kWidth);
  return std::span(values).subspan(first, end - first);
}

// The block of queries by dense attention in f64.
std::vector<float> dense_reference(const Picture& picture) {
  std::vector<float> expected(picture.q.size());
  const int32_t first = picture.rows.first_row(block_of(picture));
  const int32_t end = picture.rows.end_row(block_of(picture));
  attention_reference(picture.q.data() + first * kWidth, kWidth, end - first, picture.view,
                      picture.params, expected.data() + first * kWidth, kWidth);
  return expected;
}

struct Timed {
  double ms = 0;
  double share = 1;  // of the keys
  bool right = false;
};

Timed time_kind(Bench& bench, const Picture& picture, const AttentionKindRow& row,
                std::vector<float>& out) {
  SparseAttention given{picture.q.data(), kWidth,        &picture.view,
                        &picture.params,  &picture.rows, nullptr};
  const SparseSettings settings{.kind = row.kind};
  Timed timed;
  timed.ms = Bench::median_ms(
      [&] { attend_by_kind(bench.threads, given, settings, out.data(), kWidth); }, 3);
  const int block = block_of(picture);
  std::vector<float> expected(out.size());
  if (chooses_keys(row.kind)) {
    const PooledKeys pooled(bench.threads, picture.view, nullptr, picture.rows);
    given.pooled = &pooled;
    const ChosenKeys chosen = choose_by_kind(bench.threads, given, settings);
    timed.share = chosen.share(picture.rows);
    attention_to_chosen_reference(given, chosen, {block, block + 1}, expected.data(), kWidth);
  } else if (row.kind == AttentionKind::kPerformer) {
    const int32_t first = picture.rows.first_row(block);
    attend_by_features_reference(given, kRandomFeatures, {first, picture.rows.end_row(block)},
                                 expected.data(), kWidth);
  } else if (row.kind == AttentionKind::kEight) {
    attention_eight_reference(picture.q.data(), kWidth, picture.rows.rows(), picture.view,
                              picture.params, eight_options(kHeadDim),
                              {picture.rows.first_row(block), picture.rows.end_row(block)},
                              expected.data(), kWidth);
  } else if (row.kind == AttentionKind::kLevelSum) {
    const PooledKeys pooled(bench.threads, picture.view, nullptr, picture.rows);
    given.pooled = &pooled;
    const LevelChoice choice =
        choose_levels(bench.threads, given, blocks_in_full(picture.rows, settings));
    timed.share = choice.share(picture.rows);
    const MeanKeySets keys = mean_keys_of(given, choice);
    const std::vector<double> means =
        attend_to_means({given, keys, kEqualLevels}, {block, block + 1});
    expected.assign(means.begin(), means.end());
  } else {
    expected = dense_reference(picture);
  }
  const auto got = rows_of(picture, out);
  const auto wanted = rows_of(picture, expected);
  // Performer's exponents reach about 100, so that f32 has 1e-5 of a weight, and values reach 5.
  // A value between two of eight bits may round to either, f32 or f64: a sixteenth of one of the
  // 64 that make a score.
  float most = 1e-5f;
  if (row.kind == AttentionKind::kPerformer) most = 1e-4f;
  if (row.kind == AttentionKind::kEight) most = 1e-3f;
  timed.right = std::equal(got.begin(), got.end(), wanted.begin(),
                           [&](float a, float b) { return std::abs(a - b) < most; });
  return timed;
}

// Dense attention of the same run stands beside each.
void time_side(Bench& bench, int side) {
  if (!bench.wants(fmt::format("attention/{}", side * side))) return;
  const Picture picture(side);
  const std::vector<float> dense = dense_reference(picture);
  std::vector<float> out(picture.q.size());
  double dense_ms = 0;
  for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower)) {
    const std::string name = fmt::format("attention/{}/{}", picture.rows.rows(), row.name);
    if (row.kind != AttentionKind::kDense && !bench.wants(name)) continue;
    const Timed timed = time_kind(bench, picture, row, out);
    if (row.kind == AttentionKind::kDense) dense_ms = timed.ms;
    const Closeness close = closeness(rows_of(picture, out), rows_of(picture, dense));
    bench.add(timed.right,
              {.name = name,
               .value = timed.ms,
               .unit = "ms",
               .note = fmt::format("{:.1f}x dense ({:.1f} ms), {:.1f} % of the keys; of dense in "
                                   "f64: cosine {:.4f}, RMSE {:.4f}",
                                   dense_ms / timed.ms, dense_ms, timed.share * 100, close.cosine,
                                   close.rmse)});
  }
}

void run_kinds(Bench& bench) {
  time_side(bench, 32);
  time_side(bench, 64);
  time_side(bench, 128);
}

const BenchRegistration kRegistration("attention", "kinds", run_kinds);

}  // namespace
}  // namespace fovea
