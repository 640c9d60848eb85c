// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/kinds_cuda.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/check.h"

namespace fovea {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

template <class T>
T ceil_div(T value, T by) {
  return (value + by - 1) / by;
}
size_t whole_coarse_steps(size_t count) {
  return ceil_div(count, size_t{kCoarseStep}) * kCoarseStep;
}

bool is_window(AttentionKind kind) {
  return kind == AttentionKind::kLocal3 || kind == AttentionKind::kLocal5 ||
         kind == AttentionKind::kDilated;
}

RowSpan span_of(const RowBlocks& rows, int block, std::span<const float> key_bias) {
  const int32_t first = rows.first_row(block);
  return {.first = first,
          .count = rows.end_row(block) - first,
          .bias = key_bias.empty() ? 0.0f : key_bias[static_cast<size_t>(first)]};
}

// The blocks that a block's window may reach: its neighbours, since no window is wider than a block
// on each side.
struct WindowLists {
  std::vector<RowSpan> lists;  // [blocks][kRoom]
  std::vector<int> counts;
};
constexpr int kWindowRoom = 9;
WindowLists window_lists(const RowBlocks& rows, const std::vector<RowSpan>& spans) {
  const auto corner = [&](const RowSpan& span) {
    GridPlace place = rows.places[static_cast<size_t>(span.first)];
    place.x /= RowBlocks::kBlockSide;
    place.y /= RowBlocks::kBlockSide;
    return place;
  };
  std::vector<GridPlace> corners;
  corners.reserve(spans.size());
  for (const RowSpan& span : spans) corners.push_back(corner(span));
  WindowLists result;
  result.lists.resize(spans.size() * kWindowRoom);
  for (size_t i = 0; i < spans.size(); ++i) {
    int count = 0;
    for (size_t j = 0; j < spans.size(); ++j)
      if (corners[i].level == corners[j].level && std::abs(corners[i].x - corners[j].x) <= 1 &&
          std::abs(corners[i].y - corners[j].y) <= 1)
        result.lists[i * kWindowRoom + static_cast<size_t>(count++)] = spans[j];
    result.counts.push_back(count);
  }
  return result;
}

// What a block may have on every GPU from 8.0 on.
constexpr size_t kLeastSharedBytes = size_t{99} << 10;

}  // namespace

bool has_cuda_form(AttentionKind kind) {
  return kind == AttentionKind::kDense || is_window(kind) || kind == AttentionKind::kStrided ||
         kind == AttentionKind::kTopBlocks || kind == AttentionKind::kHierarchical ||
         kind == AttentionKind::kLinformer;
}

Status SparseAttentionCuda::open() {
  int device = 0;
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  int shared = 0;
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return cuda_error("the device's properties", error);
  multiprocessors_ = properties.multiProcessorCount;
  // The emulation answers as a GPU before 8.0, which has none of the kinds.
  shared_bytes_ = kEmulated ? kLeastSharedBytes : static_cast<size_t>(shared);
  warpgroups_ = sparse_long_is_compiled();
  return Done{};
}

int SparseAttentionCuda::count_in_full(const SparseSettings& settings) const {
  return std::min(blocks_in_full(given_, settings), blocks_);
}

Status SparseAttentionCuda::fits(std::span<const SparseSettings> kinds) const {
  int most = kMostChosenFrom;
  for (const SparseSettings& kind : kinds)
    if (row_of(kind.kind).by_blocks) most = most_chosen_from(head_dim_, shared_bytes_);
  if (blocks_ <= most) return Done{};
  return bad_input("attention by blocks: the patches lie in " + std::to_string(blocks_) +
                   " blocks of 8x8, of which this GPU takes " + std::to_string(most) +
                   "; choose another kind, or the device cpu");
}

Status SparseAttentionCuda::make_room(std::span<const SparseSettings> kinds) {
  const auto blocks = static_cast<size_t>(blocks_);
  const auto heads = static_cast<size_t>(heads_);
  const size_t words = ceil_div(blocks, size_t{kBlocksOfWord});
  Status made =
      means_.at_least(3 * heads * blocks * kGroupsOfBlock * static_cast<size_t>(head_dim_));
  if (made) made = in_full_.at_least(heads * blocks * words);
  for (const SparseSettings& kind : kinds)
    if (made && row_of(kind.kind).by_blocks)
      made = chosen_.at_least(heads * blocks * static_cast<size_t>(count_in_full(kind)));
  return made;
}

Status SparseAttentionCuda::place(Stream& stream, Staging& staging, const RowBlocks& rows,
                                  std::span<const float> key_bias, int heads, int head_dim,
                                  std::span<const SparseSettings> kinds) {
  FOVEA_CHECK(key_bias.empty() || static_cast<int64_t>(key_bias.size()) == rows.rows());
  heads_ = heads;
  head_dim_ = head_dim;
  blocks_ = rows.blocks();
  rows_ = static_cast<int>(rows.rows());
  if (Status fitting = fits(kinds); !fitting) return fitting;
  given_.group_begins = rows.group_begins;
  given_.block_begins = rows.block_begins;
  given_.places.resize(static_cast<size_t>(rows_));
  if (Status made = make_room(kinds); !made) return made;
  return upload(stream, staging, rows, key_bias);
}

Status SparseAttentionCuda::upload(Stream& stream, Staging& staging, const RowBlocks& rows,
                                   std::span<const float> key_bias) {
  std::vector<RowSpan> spans;
  std::vector<RowSpan> groups;
  std::vector<float> biases;
  has_biases_ = !key_bias.empty();
  whole_ = !has_biases_;
  for (int block = 0; block < blocks_; ++block) {
    spans.push_back(span_of(rows, block, key_bias));
    whole_ = whole_ && spans.back().count == RowBlocks::kMaxBlockRows;
    const int32_t first = rows.block_begins[static_cast<size_t>(block)];
    const int32_t end = rows.block_begins[static_cast<size_t>(block) + 1];
    for (int32_t i = 0; i < kGroupsOfBlock; ++i) {
      const auto group = static_cast<size_t>(first + i < end ? first + i : first);
      const int32_t begin = rows.group_begins[group];
      const int32_t count = rows.group_begins[group + 1] - begin;
      groups.push_back({.first = begin, .count = count});
      biases.push_back(first + i < end ? std::log(static_cast<float>(count)) + spans.back().bias
                                       : kNever);
    }
  }
  biases.resize(whole_coarse_steps(biases.size()), kNever);
  std::vector<float> strided;
  for (size_t row = 0; row < key_bias.size(); row += kStridedKeys) strided.push_back(key_bias[row]);
  strided.resize(whole_coarse_steps(strided.size()), kNever);
  std::vector<uint32_t> places;
  places.reserve(rows.places.size());
  for (const GridPlace& place : rows.places)
    places.push_back(static_cast<uint32_t>(place.x) | static_cast<uint32_t>(place.y) << 16);
  const WindowLists windows = window_lists(rows, spans);
  Status done = staging.upload<RowSpan>(stream, spans, spans_);
  if (done) done = staging.upload<RowSpan>(stream, groups, groups_);
  if (done) done = staging.upload<float>(stream, biases, coarse_biases_);
  if (done) done = staging.upload<float>(stream, strided, strided_biases_);
  if (done) done = staging.upload<uint32_t>(stream, places, places_);
  if (done) done = staging.upload<RowSpan>(stream, windows.lists, window_lists_);
  if (done) done = staging.upload<int>(stream, windows.counts, window_counts_);
  return done;
}

SparseAttentionCuda::Parts SparseAttentionCuda::parts_of(const Job& job,
                                                         const SparseSettings& settings) {
  FOVEA_CHECK(has_cuda_form(settings.kind) && settings.kind != AttentionKind::kDense);
  Parts parts;
  SparseCall& call = parts.call;
  call.rows = {.q = job.q,
               .q_stride = job.q_stride,
               .keys = job.keys,
               .values = job.values,
               .capacity = job.capacity,
               .rows = rows_,
               .heads = heads_,
               .head_dim = head_dim_,
               .blocks = blocks_,
               .spans = spans_.data(),
               .groups = groups_.data(),
               .scale = job.scale};
  call.out = job.out;
  call.out_stride = job.out_stride;
  const int64_t slots = int64_t{blocks_} * kGroupsOfBlock;
  const int64_t means = heads_ * slots * head_dim_;
  const bool pooled =
      settings.kind == AttentionKind::kHierarchical || settings.kind == AttentionKind::kLinformer;
  parts.chooses = row_of(settings.kind).by_blocks;
  parts.pools = parts.chooses || pooled;
  parts.means = {.queries = parts.chooses ? means_.data() : nullptr,
                 .keys = means_.data() + means,
                 .values = pooled ? means_.data() + 2 * means : nullptr};
  if (is_window(settings.kind)) {
    call.window = window_of(settings.kind);
    call.places = places_.data();
    call.full = {
        .room = kWindowRoom, .lists = window_lists_.data(), .counts = window_counts_.data()};
  }
  if (settings.kind == AttentionKind::kStrided) {
    const int64_t row = head_dim_;
    call.full = {.room = 1, .lists = spans_.data()};
    call.coarse = {.keys = job.keys,
                   .values = job.values,
                   .head_stride = job.capacity * row,
                   .row_stride = kStridedKeys * row,
                   .count = ceil_div(rows_, kStridedKeys),
                   .biases = has_biases_ ? strided_biases_.data() : nullptr,
                   .every = kStridedKeys};
  }
  if (parts.chooses) {
    const int count = count_in_full(settings);
    call.full = {.per_head = true,
                 .room = count,
                 .lists = chosen_.data(),
                 .in_full = pooled ? in_full_.data() : nullptr,
                 .is_even = whole_ && count % 2 == 0};
  }
  if (pooled)
    call.coarse = {
        .keys = parts.means.keys,
        .values = parts.means.values,
        .head_stride = slots * head_dim_,
        .row_stride = head_dim_,
        .count = static_cast<int>(slots),
        .biases = whole_ ? nullptr : coarse_biases_.data(),
        .bias = std::log(static_cast<float>(RowBlocks::kGroupSide * RowBlocks::kGroupSide))};
  return parts;
}

void SparseAttentionCuda::attend_to(cudaStream_t stream, const SparseCall& call) const {
  if (warpgroups_ && sparse_long_takes(call) && sparse_long_cuda(stream, call, multiprocessors_))
    return;
  attend_spans_cuda(stream, call);
}

void SparseAttentionCuda::attend(cudaStream_t stream, const Job& job,
                                 const SparseSettings& settings) {
  const Parts parts = parts_of(job, settings);
  if (parts.pools) mean_groups_cuda(stream, parts.call.rows, parts.means);
  if (parts.chooses)
    choose_blocks_cuda(stream, parts.call.rows, parts.means, parts.call.full, shared_bytes_);
  attend_to(stream, parts.call);
}

}  // namespace fovea
