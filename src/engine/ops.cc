// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/out_of_memory.h"
#include "base/threads.h"
#include "engine/check_threads.h"
#include "ops/attention/attention_job.h"
#include "ops/attention/sparse/kinds.h"
#include "ops/attention/sparse/token_blocks.h"
#include "pyramid/pyramid.h"

namespace fovea {
namespace {

Status check_shape(const AttentionRows& rows, const AttentionOptions& options) {
  if (rows.kv_heads <= 0 || rows.heads <= 0 || rows.heads % rows.kv_heads != 0)
    return bad_input(
        fmt::format("attention of {} heads over {}: give a multiple of the keys' heads", rows.heads,
                    rows.kv_heads));
  if (rows.rows < 0 || rows.rows > INT32_MAX / 2)
    return bad_input(fmt::format("attention of {} rows: give 0 to {}", rows.rows, INT32_MAX / 2));
  if (!(options.share >= 0 && options.share <= 1))
    return bad_input(fmt::format("a share of {} of the blocks: give 0 to 1", options.share));
  if (!(options.scale >= 0))
    return bad_input(fmt::format("a scale of {}: give 0 or more", options.scale));
  return check_threads(options.threads);
}

// What the kernels take.
Status check_head_dim(int head_dim) {
  if (head_dim > 0 && head_dim % 4 == 0 && head_dim <= kMaxHeadDim) return Done{};
  return bad_input(fmt::format("attention with heads of {} values: give a multiple of 4, up to {}",
                               head_dim, kMaxHeadDim));
}

Status check_places(const AttentionRows& rows, const AttentionOptions& options) {
  if (static_cast<int64_t>(options.places.size()) != rows.rows)
    return bad_input(fmt::format("attention \"{}\" of {} rows with {} places: give one for each",
                                 options.kind, rows.rows, options.places.size()));
  std::vector<std::tuple<int32_t, int32_t, int32_t>> sorted;
  sorted.reserve(options.places.size());
  for (const RowInGrid& place : options.places) {
    if (place.level < 0 || place.row < 0 || place.col < 0)
      return bad_input(fmt::format("a row at level {}, row {}, column {}: give 0 or more",
                                   place.level, place.row, place.col));
    sorted.emplace_back(place.level, place.row, place.col);
  }
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return Done{};
  const auto [level, row, col] = *twice;
  return bad_input(fmt::format("two rows at level {}, row {}, column {}: give each its own place",
                               level, row, col));
}

Status check_sum_weights(AttentionKind kind, const AttentionOptions& options) {
  const std::span<const float> weights = options.sum_weights;
  if (weights.empty()) return Done{};
  if (kind != AttentionKind::kLevelSum)
    return bad_input(
        fmt::format("attention \"{}\" with weights of a sum: they are of level-sum", options.kind));
  if (weights.size() != kSumLevels ||
      !std::all_of(weights.begin(), weights.end(), [](float one) { return std::isfinite(one); }))
    return bad_input(
        fmt::format("level-sum with the weights [{}]: give {} finite numbers, of fine, "
                    "medium and coarse",
                    fmt::join(weights, ", "), kSumLevels));
  return Done{};
}

Status check_images(const AttentionRows& rows, std::span<const RowSpan> images) {
  int64_t end = 0;
  for (const RowSpan& image : images) {
    if (image.begin < end || image.end < image.begin || image.end > rows.rows)
      return bad_input(
          fmt::format("an image of the rows {} to {}: give ranges in order, apart from each "
                      "other, within {} rows",
                      image.begin, image.end, rows.rows));
    end = image.end;
  }
  return Done{};
}

// Keys and values as attention reads them: a page that holds them all.
class KeyPage {
 public:
  KeyPage(const AttentionRows& rows, std::span<const int32_t> order)
      : rows_(rows),
        values_(static_cast<size_t>(page_values(rows.kv_heads, rows.head_dim, rows.rows))) {
    page_ = values_.data();
    const int64_t width = int64_t{rows.kv_heads} * rows.head_dim;
    for (int head = 0; head < rows.kv_heads; ++head) {
      float* keys = values_.data() + 2 * head * rows.rows * rows.head_dim;
      float* values = keys + rows.rows * rows.head_dim;
      for (int64_t i = 0; i < rows.rows; ++i) {
        const int64_t from = order.empty() ? i : order[static_cast<size_t>(i)];
        const int64_t at = from * width + int64_t{head} * rows.head_dim;
        std::copy_n(rows.k + at, rows.head_dim, keys + i * rows.head_dim);
        std::copy_n(rows.v + at, rows.head_dim, values + i * rows.head_dim);
      }
    }
  }
  PagedKeys view() const {
    return {.pages = &page_,
            .size = rows_.rows,
            .kv_heads = rows_.kv_heads,
            .head_dim = rows_.head_dim,
            .page_tokens = static_cast<int>(rows_.rows)};
  }

 private:
  const AttentionRows& rows_;
  Buffer<float> values_;
  const float* page_ = nullptr;
};

void attend_text(Threads& threads, const AttentionRows& rows, const AttentionOptions& options,
                 const SparseSettings& settings) {
  const KeyPage page(rows, {});
  const PagedKeys kv = page.view();
  const AttentionParams params{.heads = rows.heads, .scale = options.scale, .causal = true};
  std::vector<TokenRange> images;
  for (const RowSpan& image : options.images) images.push_back({image.begin, image.end});
  const int64_t width = int64_t{rows.heads} * rows.head_dim;
  attend_to_tokens(threads, {rows.q, width, rows.rows, &kv, &params, images}, settings, rows.out,
                   width);
}

void attend_patches(Threads& threads, const AttentionRows& rows, const AttentionOptions& options,
                    const SparseSettings& settings) {
  std::vector<GridPlace> places;
  for (const RowInGrid& place : options.places)
    places.push_back({place.level, place.col, place.row});
  if (places.empty())  // dense attention has no use for them
    for (int32_t i = 0; i < rows.rows; ++i) places.push_back({0, i, 0});
  const RowBlocks blocks = block_rows(places);
  const KeyPage page(rows, blocks.order);
  const PagedKeys kv = page.view();
  std::vector<float> bias;
  if (!options.level_bias.empty())
    for (const GridPlace& place : blocks.places)
      bias.push_back(options.level_bias[std::min(static_cast<size_t>(place.level),
                                                 options.level_bias.size() - 1)]);
  const AttentionParams params{.heads = rows.heads,
                               .scale = options.scale,
                               .key_bias = bias.empty() ? nullptr : bias.data()};
  const int64_t width = int64_t{rows.heads} * rows.head_dim;
  Buffer<float> q(static_cast<size_t>(rows.rows * width));
  Buffer<float> out(static_cast<size_t>(rows.rows * width));
  for (int64_t i = 0; i < rows.rows; ++i)
    std::copy_n(rows.q + blocks.order[static_cast<size_t>(i)] * width, width, q.data() + i * width);
  attend_by_kind(threads, {q.data(), width, &kv, &params, &blocks}, settings, out.data(), width);
  for (int64_t i = 0; i < rows.rows; ++i)
    std::copy_n(out.data() + i * width, width,
                rows.out + blocks.order[static_cast<size_t>(i)] * width);
}

}  // namespace

Status check_attention(const AttentionRows& rows, const AttentionOptions& options) {
  return within_memory([&]() -> Status {
    const auto place = options.causal ? AttentionPlace::kText : AttentionPlace::kTower;
    const auto kind = find_attention_kind(options.kind, place);
    if (!kind) return kind.error();
    if (auto checked = check_shape(rows, options); !checked) return checked;
    if (auto checked = check_images(rows, options.images); !checked) return checked;
    if (auto checked = check_sum_weights(*kind, options); !checked) return checked;
    if (options.causal && !options.level_bias.empty())
      return bad_input("a bias of levels in a sequence: leave it out, or causal");
    if (!options.causal &&
        (*kind != AttentionKind::kDense || !options.places.empty() || !options.level_bias.empty()))
      return check_places(rows, options);
    return Done{};
  });
}

Status attend(const AttentionRows& rows, const AttentionOptions& options) {
  return within_memory([&]() -> Status {
    if (auto checked = check_attention(rows, options); !checked) return checked;
    if (auto checked = check_head_dim(rows.head_dim); !checked) return checked;
    if (rows.rows == 0) return Done{};
    const auto place = options.causal ? AttentionPlace::kText : AttentionPlace::kTower;
    Threads threads(options.threads > 0 ? options.threads : usable_cores());
    SparseSettings settings{*find_attention_kind(options.kind, place), options.share};
    if (!options.sum_weights.empty())
      std::copy_n(options.sum_weights.begin(), kSumLevels, settings.level_weights.begin());
    if (options.causal)
      attend_text(threads, rows, options, settings);
    else
      attend_patches(threads, rows, options, settings);
    return Done{};
  });
}

Result<std::vector<Image>> levels_of(Image canvas, int levels, int threads) {
  return within_memory([&]() -> Result<std::vector<Image>> {
    if (auto checked = check_threads(threads); !checked) return checked.error();
    if (levels < 0 || levels > kMaxLevels)
      return bad_input(fmt::format("{} levels: give 0 to {}", levels, kMaxLevels));
    if (canvas.size.width_px <= 0 || canvas.size.height_px <= 0)
      return bad_input("a canvas without pixels: give at least one");
    Threads workers(threads > 0 ? threads : usable_cores());
    const Pyramid pyramid = build_pyramid(workers, std::move(canvas), levels);
    std::vector<Image> made;
    for (int level = 0; level < pyramid.levels(); ++level) {
      const LevelView view = pyramid.level(level);
      Image& image = made.emplace_back(view.size);
      const int64_t row_bytes = int64_t{3} * view.size.width_px;
      for (int y = 0; y < view.size.height_px; ++y)
        std::copy_n(view.row(y), row_bytes, image.rgb.data() + y * row_bytes);
    }
    return made;
  });
}

}  // namespace fovea
