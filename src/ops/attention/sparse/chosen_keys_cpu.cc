// SPDX-License-Identifier: Apache-2.0
// Attention to chosen keys by the tiles of dense attention. A task is a kv head and a block of
// queries; its keys come in portions that need not lie together: long ranges are read where they
// lie, short ones are copied side by side first.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "ops/attention/attention_job.h"
#include "ops/attention/sparse/chosen_keys.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/sparse/chosen_keys_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/attention/attention_tile_inl.h"

#ifndef FOVEA_CHOSEN_KEYS_CPU_ONCE
#define FOVEA_CHOSEN_KEYS_CPU_ONCE
namespace fovea {
namespace {

constexpr int64_t kSliceRows = 192;
constexpr int kShortRange = PagedKeys::kPageStep;  // shorter ranges are copied

// One call, for all its tasks.
struct ChosenJob {
  AttentionJob attention;
  const SparseAttention* given = nullptr;
  const ChosenKeys* chosen = nullptr;
};

}  // namespace
}  // namespace fovea
#endif  // FOVEA_CHOSEN_KEYS_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

constexpr int kMaxTiles = static_cast<int>(kSliceRows) / kTileLanes;

// At most kKeyBlock keys of a head, gathered from ranges.
struct Portion {
  KeyRuns keys;
  int count = 0;
  HWY_ALIGN float bias[kKeyBlock + kMaxPassKeys];
  HWY_ALIGN int32_t row[kKeyBlock];  // of the key, for windows
};

// Fills portions from the ranges of one task, one after the other.
class Portions {
 public:
  // copies: [2][kKeyBlock][head_dim]
  Portions(const ChosenJob& job, int kv_head, int64_t begin, int64_t end, float* copies)
      : job_(job), kv_head_(kv_head), range_(begin), end_(end), copies_(copies) {}

  bool Next(Portion& portion) {
    portion.keys.runs = 0;
    portion.count = 0;
    copied_ = 0;
    while (range_ < end_ && portion.count < kKeyBlock && portion.keys.runs < KeyRuns::kMostRuns - 1)
      TakeRun(portion);
    for (int t = portion.count; t < kKeyBlock + kMaxPassKeys; ++t) portion.bias[t] = 0;
    return portion.count > 0;
  }

 private:
  // As much of the current range as lies together and has room.
  void TakeRun(Portion& portion) {
    const KeyRange& range = job_.chosen->ranges[static_cast<size_t>(range_)];
    const PagedKeys& kv = range.pooled ? pooled_ : *job_.given->kv;
    const int32_t first = range.first + taken_;
    const int count = static_cast<int>(std::min<int64_t>(
        {int64_t{range.count} - taken_, int64_t{kKeyBlock} - portion.count, kv.run(first)}));
    const float* keys = kv.key(kv_head_, first);
    const float* values = keys + kv.value_after_key();
    if (count < kShortRange)
      AddCopy(portion, keys, values, count);
    else
      portion.keys.run[portion.keys.runs++] = {keys, values, count};
    const float* bias = range.pooled ? job_.given->pooled->biases() : job_.given->params->key_bias;
    for (int t = 0; t < count; ++t) {
      portion.bias[portion.count + t] = bias == nullptr ? 0 : bias[first + t] * kLog2E;
      portion.row[portion.count + t] = first + t;
    }
    portion.count += count;
    taken_ += count;
    if (taken_ < range.count) return;
    taken_ = 0;
    ++range_;
  }

  void AddCopy(Portion& portion, const float* keys, const float* values, int count) {
    const int head_dim = job_.attention.head_dim;
    const size_t bytes = static_cast<size_t>(count) * head_dim * sizeof(float);
    float* to_keys = copies_ + int64_t{copied_} * head_dim;
    float* to_values = to_keys + int64_t{kKeyBlock} * head_dim;
    std::memcpy(to_keys, keys, bytes);
    std::memcpy(to_values, values, bytes);
    copied_ += count;
    KeyRun* last = portion.keys.runs > 0 ? &portion.keys.run[portion.keys.runs - 1] : nullptr;
    if (last != nullptr && last->keys + int64_t{last->count} * head_dim == to_keys)
      last->count += count;
    else
      portion.keys.run[portion.keys.runs++] = {to_keys, to_values, count};
  }

  const ChosenJob& job_;
  const PagedKeys pooled_ =
      job_.given->pooled != nullptr ? job_.given->pooled->view() : PagedKeys();
  const int kv_head_;
  int64_t range_;
  const int64_t end_;
  float* const copies_;
  int32_t taken_ = 0;  // keys of the current range
  int copied_ = 0;     // keys of the portion
};

struct Tile {
  int64_t row = 0;
  int count = 0;  // rows
  int vecs = 0;   // of lanes
  float* transposed = nullptr;
  float* result = nullptr;
};

// Gives the keys outside a row's window a score that is no score.
template <int kVecs>
void MaskOutside(const ChosenJob& job, const Tile& tile, const Portion& portion, float* scores) {
  const std::vector<GridPlace>& places = job.given->rows->places;
  for (int i = 0; i < tile.count; ++i) {
    const GridPlace& query = places[static_cast<size_t>((tile.row + i) / job.attention.group)];
    for (int t = 0; t < portion.count; ++t)
      if (!job.chosen->window.sees(query, places[static_cast<size_t>(portion.row[t])]))
        scores[t * kVecs * kTileLanes + i] = kMaskedScore;
  }
}

template <int kVecs>
HWY_NOINLINE void AttendTile(const ChosenJob& job, const Tile& tile, const Portion& portion,
                             float* spare, float* scores, RowState& state) {
  const int head_dim = job.attention.head_dim;
  Scores<kVecs>(tile.transposed, portion.keys, portion.bias, portion.count, head_dim, spare,
                scores);
  if (job.chosen->window.radius > 0) {
    MaskOutside<kVecs>(job, tile, portion, scores);
    Weights<kVecs, true, true>(state, portion.count, scores);
  } else {
    Weights<kVecs, false, true>(state, portion.count, scores);
  }
  AddValues<kVecs>(state, portion.keys, head_dim, scores, portion.count, tile.result);
}

// Rows [begin, end) of a kv head, which have the ranges [first_range, end_range).
void AttendSlice(const ChosenJob& job, int kv_head, int64_t begin, int64_t end, int64_t first_range,
                 int64_t end_range) {
  const AttentionJob& attention = job.attention;
  const int head_dim = attention.head_dim;
  const size_t slice_values = static_cast<size_t>(kSliceRows) * head_dim;
  const size_t spare_values = static_cast<size_t>(kMaxPassKeys) * head_dim;
  const size_t copied_values = size_t{2} * kKeyBlock * head_dim;
  constexpr size_t kScores = static_cast<size_t>(kKeyBlock + kMaxPassKeys) * kMaxTileRows;
  float* memory = attention_scratch(ScratchUse::kTile,
                                    2 * slice_values + kScores + copied_values + spare_values);
  float* transposed = memory;
  float* result = transposed + slice_values;
  float* scores = result + slice_values;
  float* copies = scores + kScores;
  float* spare = copies + copied_values;
  std::memset(result, 0, slice_values * sizeof(float));

  Tile tiles[kMaxTiles];
  RowState states[kMaxTiles];
  int tile_count = 0;
  for (int64_t row = begin; row < end; ++tile_count) {
    Tile& tile = tiles[tile_count];
    tile.row = row;
    tile.vecs = TileVecs(end - row);
    tile.count = static_cast<int>(std::min<int64_t>(end - row, tile.vecs * kTileLanes));
    tile.transposed = transposed + (row - begin) * head_dim;
    tile.result = result + (row - begin) * head_dim;
    states[tile_count].Start(attention, row, tile.count);
    PackRows(attention, kv_head, row, tile.count, tile.vecs * kTileLanes,
             attention.params->scale * kLog2E, tile.transposed);
    row += tile.count;
  }

  Portions portions(job, kv_head, first_range, end_range, copies);
  Portion portion;
  while (portions.Next(portion)) {
    for (int i = 0; i < tile_count; ++i) {
      if (tiles[i].vecs == 1)
        AttendTile<1>(job, tiles[i], portion, spare, scores, states[i]);
      else if (tiles[i].vecs == 2)
        AttendTile<2>(job, tiles[i], portion, spare, scores, states[i]);
      else
        AttendTile<3>(job, tiles[i], portion, spare, scores, states[i]);
    }
  }
  for (int i = 0; i < tile_count; ++i) {
    const Tile& tile = tiles[i];
    float* shares = states[i].sum;
    for (int lane = 0; lane < tile.vecs * kTileLanes; ++lane) shares[lane] = 1 / shares[lane];
    UnpackRows(attention, kv_head, tile.row, tile.count, tile.vecs * kTileLanes, shares,
               tile.result);
  }
}

// The largest of the scores [begin, end) of each lane.
template <int kVecs>
void LargestScores(const float* scores, int begin, int end, float* largest) {
  const TileTag d;
  for (int v = 0; v < kVecs; ++v) {
    TileVec most = hn::Set(d, kNoScore);
    for (int t = begin; t < end; ++t)
      most = hn::Max(most, hn::Load(d, scores + (t * kVecs + v) * kTileLanes));
    hn::Store(most, d, largest + v * kTileLanes);
  }
}

// Which block each of the rows of a tile of mean queries is of.
void BlocksOf(const AttentionJob& means, const RowBlocks& rows, int64_t row, int count,
              int* block) {
  const auto& begins = rows.block_begins;
  for (int i = 0; i < count; ++i) {
    const auto group = static_cast<int32_t>((row + i) / means.group);
    block[i] =
        static_cast<int>(std::upper_bound(begins.begin(), begins.end(), group) - begins.begin()) -
        1;
  }
}

// Rows [row, row + count) of mean queries against all mean keys: `largest` of their blocks grows.
template <int kVecs>
void ScoreGroups(const AttentionJob& means, const RowBlocks& rows, int kv_head, int64_t row,
                 int count, float* memory, float* largest) {
  float* transposed = memory;
  float* scores = transposed + static_cast<size_t>(kMaxTileRows) * means.head_dim;
  float* spare = scores + static_cast<size_t>(kKeyBlock + kMaxPassKeys) * kMaxTileRows;
  HWY_ALIGN float no_bias[kKeyBlock + kMaxPassKeys] = {};
  HWY_ALIGN float of_block[kMaxTileRows] = {};
  int block_of_row[kMaxTileRows];
  const std::vector<int32_t>& begins = rows.block_begins;
  BlocksOf(means, rows, row, count, block_of_row);
  PackRows(means, kv_head, row, count, kVecs * kTileLanes, 1, transposed);
  for (int block = 0; block < rows.blocks();) {  // as many whole blocks as a portion holds
    const int first = begins[block];
    int end = block + 1;
    while (end < rows.blocks() && begins[end + 1] - first <= kKeyBlock) ++end;
    const int keys = begins[end] - first;
    Scores<kVecs>(transposed, KeyRuns(*means.kv, kv_head, first, keys), no_bias, keys,
                  means.head_dim, spare, scores);
    for (; block < end; ++block) {
      LargestScores<kVecs>(scores, begins[block] - first, begins[block + 1] - first, of_block);
      for (int i = 0; i < count; ++i) {
        float& most = largest[int64_t{block_of_row[i]} * rows.blocks() + block];
        most = std::max(most, of_block[i]);
      }
    }
  }
}

void BlockScores(const AttentionJob& means, const RowBlocks& rows, int kv_head, float* largest) {
  float* memory = attention_scratch(
      ScratchUse::kTile, static_cast<size_t>(kMaxTileRows + kMaxPassKeys) * means.head_dim +
                             static_cast<size_t>(kKeyBlock + kMaxPassKeys) * kMaxTileRows);
  for (int64_t row = 0; row < means.rows();) {
    const int vecs = TileVecs(means.rows() - row);
    const int count = static_cast<int>(std::min<int64_t>(means.rows() - row, vecs * kTileLanes));
    if (vecs == 1)
      ScoreGroups<1>(means, rows, kv_head, row, count, memory, largest);
    else if (vecs == 2)
      ScoreGroups<2>(means, rows, kv_head, row, count, memory, largest);
    else
      ScoreGroups<3>(means, rows, kv_head, row, count, memory, largest);
    row += count;
  }
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(AttendSlice);
HWY_EXPORT(BlockScores);

AttentionJob job_of(const SparseAttention& given) {
  const PagedKeys& kv = *given.kv;
  const AttentionParams& params = *given.params;
  FOVEA_CHECK(params.heads > 0 && kv.kv_heads > 0 && params.heads % kv.kv_heads == 0);
  FOVEA_CHECK(kv.head_dim % 4 == 0 && kv.head_dim > 0 && kv.head_dim <= kMaxHeadDim);
  FOVEA_CHECK(kv.size == given.rows->rows() && !params.causal);
  return {.q = given.q,
          .q_stride = given.q_stride,
          .queries = kv.size,
          .kv = given.kv,
          .params = given.params,
          .group = params.heads / kv.kv_heads,
          .head_dim = kv.head_dim,
          .keys = kv.size};
}

}  // namespace

void attention_to_chosen(Threads& threads, const SparseAttention& given, const ChosenKeys& chosen,
                         float* out, int64_t out_stride) {
  const RowBlocks& rows = *given.rows;
  if (rows.rows() == 0) return;
  ChosenJob job{job_of(given), &given, &chosen};
  job.attention.out = out;
  job.attention.out_stride = out_stride;
  const int64_t blocks = rows.blocks();
  const int64_t tasks = blocks * given.kv->kv_heads;
  threads.for_each(tasks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const auto block = static_cast<int>(task % blocks);
      const auto choice = static_cast<size_t>(chosen.per_head ? task : block);
      const int64_t end = int64_t{rows.end_row(block)} * job.attention.group;
      for (int64_t row = int64_t{rows.first_row(block)} * job.attention.group; row < end;
           row += kSliceRows)
        HWY_DYNAMIC_DISPATCH(AttendSlice)
      (job, static_cast<int>(task / blocks), row, std::min(row + kSliceRows, end),
       chosen.begins[choice], chosen.begins[choice + 1]);
    }
  });
}

void block_scores(const SparseAttention& given, const float* mean_queries, int kv_head,
                  float* largest) {
  const RowBlocks& rows = *given.rows;
  const PagedKeys keys = given.pooled->view();
  AttentionJob means = job_of(given);
  means.q = mean_queries;
  means.q_stride = int64_t{given.params->heads} * given.kv->head_dim;
  means.queries = means.keys = rows.groups();
  means.kv = &keys;
  std::fill_n(largest, int64_t{rows.blocks()} * rows.blocks(),
              std::numeric_limits<float>::lowest());
  HWY_DYNAMIC_DISPATCH(BlockScores)(means, rows, kv_head, largest);
}

}  // namespace fovea
#endif  // HWY_ONCE
