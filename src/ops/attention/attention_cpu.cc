// SPDX-License-Identifier: Apache-2.0
// Attention by tiles. A task is a kv head and a block of its rows; it goes through the keys block
// by block, and in each through the tiles of its rows, so that a block of keys and values is read
// from near for all of them. The sums are f32; nothing of size queries x keys exists.
#include <algorithm>
#include <cstring>

#include "ops/attention/attention_job.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/attention/attention_tile_inl.h"

#ifndef FOVEA_ATTENTION_CPU_ONCE
#define FOVEA_ATTENTION_CPU_ONCE
namespace fovea {
namespace {

constexpr int64_t kBlockRows = 192;

}  // namespace
}  // namespace fovea
#endif  // FOVEA_ATTENTION_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

constexpr int kMaxTiles = static_cast<int>(kBlockRows) / kTileLanes;

struct Tile {
  int64_t row = 0;
  int count = 0;      // rows
  int vecs = 0;       // of lanes
  int64_t limit = 0;  // keys that any row sees
  int64_t full = 0;   // keys that every row sees
  float* transposed = nullptr;
  float* result = nullptr;
};

// One block of keys, for one tile.
struct KeyBlock {
  KeyRuns keys;
  int64_t first = 0;
  int count = 0;
  const float* bias = nullptr;
};

template <int kVecs>
HWY_NOINLINE void AttendTile(const Tile& tile, const KeyBlock& block, int head_dim, float* spare,
                             float* scores, RowState& state) {
  const int count = static_cast<int>(std::min<int64_t>(block.count, tile.limit - block.first));
  if (count <= 0) return;
  Scores<kVecs>(tile.transposed, block.keys, block.bias, count, head_dim, spare, scores);
  if (block.first + count > tile.full) {
    MaskScores<kVecs>(state, static_cast<int32_t>(block.first), count, scores);
    Weights<kVecs, true, true>(state, count, scores);
  } else {
    Weights<kVecs, false, true>(state, count, scores);
  }
  AddValues<kVecs>(state, block.keys, head_dim, scores, count, tile.result);
}

// Rows [begin, end) of a kv head.
void AttendRows(const AttentionJob& job, int kv_head, int64_t begin, int64_t end) {
  const int head_dim = job.head_dim;
  const size_t block_values = static_cast<size_t>(kBlockRows) * head_dim;
  const size_t spare_values = static_cast<size_t>(kMaxPassKeys) * head_dim;
  constexpr size_t kScores = static_cast<size_t>(kKeyBlock + kMaxPassKeys) * kMaxTileRows;
  float* memory = attention_scratch(
      ScratchUse::kTile, 2 * block_values + spare_values + kScores + KeyRuns::wide_values(*job.kv));
  float* transposed = memory;
  float* result = transposed + block_values;
  float* scores = result + block_values;
  float* spare = scores + kScores;
  float* wide = spare + spare_values;
  std::memset(result, 0, block_values * sizeof(float));

  Tile tiles[kMaxTiles];
  RowState states[kMaxTiles];
  int tile_count = 0;
  for (int64_t row = begin; row < end; ++tile_count) {
    Tile& tile = tiles[tile_count];
    tile.row = row;
    tile.vecs = TileVecs(end - row);
    tile.count = static_cast<int>(std::min<int64_t>(end - row, tile.vecs * kTileLanes));
    tile.full = job.limit(row);
    tile.limit = job.limit(row + tile.count - 1);
    tile.transposed = transposed + (row - begin) * head_dim;
    tile.result = result + (row - begin) * head_dim;
    states[tile_count].Start(job, row, tile.count);
    PackRows(job, kv_head, row, tile.count, tile.vecs * kTileLanes, job.params->scale * kLog2E,
             tile.transposed);
    row += tile.count;
  }

  HWY_ALIGN float bias[kKeyBlock + kMaxPassKeys];
  const int64_t keys = job.limit(end - 1);
  for (int64_t first = 0; first < keys; first += kKeyBlock) {
    const int count = static_cast<int>(std::min<int64_t>(kKeyBlock, keys - first));
    const KeyBlock block{KeyRuns(*job.kv, kv_head, first, count, wide), first, count, bias};
    ScaleBias(job.params->key_bias, first, block.count, bias);
    for (int i = 0; i < tile_count; ++i) {
      if (tiles[i].vecs == 1)
        AttendTile<1>(tiles[i], block, head_dim, spare, scores, states[i]);
      else if (tiles[i].vecs == 2)
        AttendTile<2>(tiles[i], block, head_dim, spare, scores, states[i]);
      else
        AttendTile<3>(tiles[i], block, head_dim, spare, scores, states[i]);
    }
  }
  for (int i = 0; i < tile_count; ++i) {
    const Tile& tile = tiles[i];
    float* shares = states[i].sum;
    for (int lane = 0; lane < tile.vecs * kTileLanes; ++lane) shares[lane] = 1 / shares[lane];
    UnpackRows(job, kv_head, tile.row, tile.count, tile.vecs * kTileLanes, shares, tile.result);
  }
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(AttendRows);

}  // namespace

void attention_tiles_cpu(Threads& threads, const AttentionJob& job) {
  const int64_t blocks = (job.rows() + kBlockRows - 1) / kBlockRows;
  const int64_t tasks = blocks * job.kv->kv_heads;
  threads.for_each(tasks, attention_is_small(job) ? tasks : 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      // The last rows of a causal job see the most keys; what takes longest goes first.
      const int64_t row = (blocks - 1 - task % blocks) * kBlockRows;
      HWY_DYNAMIC_DISPATCH(AttendRows)
      (job, static_cast<int>(task / blocks), row, std::min(row + kBlockRows, job.rows()));
    }
  });
}

}  // namespace fovea
#endif  // HWY_ONCE
