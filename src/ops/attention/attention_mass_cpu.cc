// SPDX-License-Identifier: Apache-2.0
// How much queries attend to keys, in two passes over the scores: the first finds each row's
// greatest score and sum, the second, for each block of the keys asked for, adds up the weights of
// all rows, in their order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/buffer.h"
#include "ops/attention/attention_job.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_mass_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/attention/attention_tile_inl.h"

#ifndef FOVEA_ATTENTION_MASS_CPU_ONCE
#define FOVEA_ATTENTION_MASS_CPU_ONCE
namespace fovea {
namespace {

// Rows that one thread takes at a time; a multiple of every tile but the last.
constexpr int64_t kMassRows = 96;

// Of every row of every kv head: [kv_heads][rows].
struct RowSums {
  float* most = nullptr;
  float* sum = nullptr;
};

// What one block of keys comes to, in units of rows.
struct BlockMass {
  float* mass = nullptr;          // [keys]
  float* standing_out = nullptr;  // [keys], or null
  float* given = nullptr;         // [kv_heads][rows], which begins as zeros; or null
};

}  // namespace
}  // namespace fovea
#endif  // FOVEA_ATTENTION_MASS_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

// What a thread works in, of which one tile is in use at a time.
struct MassScratch {
  explicit MassScratch(const PagedKeys& kv) {
    const int head_dim = kv.head_dim;
    const size_t transposed_values = static_cast<size_t>(kMaxTileRows) * head_dim;
    constexpr size_t kScores = static_cast<size_t>(kKeyBlock + kMaxPassKeys) * kMaxTileRows;
    const size_t spare_values = static_cast<size_t>(kMaxPassKeys) * head_dim;
    transposed = attention_scratch(
        ScratchUse::kTile, transposed_values + kScores + spare_values + KeyRuns::wide_values(kv));
    scores = transposed + transposed_values;
    spare = scores + kScores;
    wide = spare + spare_values;
  }
  float* transposed;
  float* scores;
  float* spare;
  float* wide;  // KeyRuns::wide_values()
};

template <int kVecs>
void SumTile(const AttentionJob& job, int kv_head, int64_t row, int count,
             const MassScratch& scratch, RowState& state) {
  state.Start(job, row, count);
  PackRows(job, kv_head, row, count, kVecs * kTileLanes, job.params->scale * kLog2E,
           scratch.transposed);
  HWY_ALIGN float bias[kKeyBlock + kMaxPassKeys];
  const int64_t keys = job.limit(row + count - 1);
  for (int64_t first = 0; first < keys; first += kKeyBlock) {
    const int block = static_cast<int>(std::min<int64_t>(kKeyBlock, keys - first));
    ScaleBias(job.params->key_bias, first, block, bias);
    Scores<kVecs>(scratch.transposed, KeyRuns(*job.kv, kv_head, first, block, scratch.wide, false),
                  bias, block, job.head_dim, scratch.spare, scratch.scores);
    MaskScores<kVecs>(state, static_cast<int32_t>(first), block, scratch.scores);
    Weights<kVecs, true, false>(state, block, scratch.scores);
  }
}

// The first pass, for rows [begin, end) of a kv head.
void SumRows(const AttentionJob& job, int kv_head, int64_t begin, int64_t end,
             const RowSums& sums) {
  const MassScratch scratch(*job.kv);
  RowState state;
  for (int64_t row = begin; row < end;) {
    const int vecs = TileVecs(end - row);
    const int count = static_cast<int>(std::min<int64_t>(end - row, vecs * kTileLanes));
    if (vecs == 1)
      SumTile<1>(job, kv_head, row, count, scratch, state);
    else if (vecs == 2)
      SumTile<2>(job, kv_head, row, count, scratch, state);
    else
      SumTile<3>(job, kv_head, row, count, scratch, state);
    const int64_t at = kv_head * job.rows() + row;
    std::memcpy(sums.most + at, state.most, static_cast<size_t>(count) * sizeof(float));
    std::memcpy(sums.sum + at, state.sum, static_cast<size_t>(count) * sizeof(float));
    row += count;
  }
}

// The block of keys that the second pass is at; lanes are rows of all tiles.
struct LaneSums {
  int64_t first = 0;
  int keys = 0;
  const float* bias = nullptr;
  float* HWY_RESTRICT mass = nullptr;          // [keys][lanes]
  float* HWY_RESTRICT standing_out = nullptr;  // [keys][lanes], or null
  float* HWY_RESTRICT given = nullptr;         // BlockMass::given
};

// Adds the weights of a tile's rows for the keys of a block.
template <int kVecs>
void WeighTile(const AttentionJob& job, const float* query_parts, int kv_head, int64_t row,
               int count, const RowSums& sums, const MassScratch& scratch, const LaneSums& block) {
  const TileTag d;
  const int64_t first = block.first;
  const int keys = block.keys;
  RowState state;
  state.Start(job, row, count);
  const int64_t at = kv_head * job.rows() + row;
  HWY_ALIGN float parts[kMaxTileRows];  // lanes without a row weigh nothing
  for (int i = 0; i < kVecs * kTileLanes; ++i) {
    const bool counts = i < count;
    parts[i] = !counts ? 0 : query_parts == nullptr ? 1 : query_parts[(row + i) / job.group];
    state.most[i] = counts ? sums.most[at + i] : 0;
    state.shrink[i] = counts ? parts[i] / sums.sum[at + i] : 0;
  }
  PackRows(job, kv_head, row, count, kVecs * kTileLanes, job.params->scale * kLog2E,
           scratch.transposed);
  Scores<kVecs>(scratch.transposed, KeyRuns(*job.kv, kv_head, first, keys, scratch.wide, false),
                block.bias, keys, job.head_dim, scratch.spare, scratch.scores);
  MaskScores<kVecs>(state, static_cast<int32_t>(first), keys, scratch.scores);
  for (int t = 0; t < keys; ++t) {
    TileVec sum = hn::Load(d, block.mass + t * kTileLanes);
    for (int v = 0; v < kVecs; ++v) {
      const TileVec score = hn::Load(d, scratch.scores + (t * kVecs + v) * kTileLanes);
      // A lane without a row repeats one, but has another greatest score: kept from overflowing.
      const TileVec below =
          hn::Min(hn::Sub(score, hn::Load(d, state.most + v * kTileLanes)), hn::Set(d, 1.0f));
      const TileVec weight =
          hn::IfThenElseZero(hn::Gt(score, hn::Set(d, kMaskedScore)), Exp2(d, below));
      const TileVec shrink = hn::Load(d, state.shrink + v * kTileLanes);
      sum = hn::MulAdd(weight, shrink, sum);
      if (block.standing_out != nullptr) {
        float* out = block.standing_out + t * kTileLanes;
        const TileVec part = hn::Load(d, parts + v * kTileLanes);
        const TileVec stands = hn::IfThenElseZero(hn::Ge(weight, hn::Set(d, kStandsOut)), part);
        hn::Store(hn::Add(hn::Load(d, out), stands), d, out);
      }
      if (block.given != nullptr) hn::Store(hn::Mul(weight, shrink), d, state.sum + v * kTileLanes);
    }
    hn::Store(sum, d, block.mass + t * kTileLanes);
    if (block.given != nullptr)
      for (int i = 0; i < count; ++i) block.given[at + i] += state.sum[i];
  }
}

// sums[t] = lanes[t] added up, over all rows.
void AddLanes(const float* lanes, int keys, float rows, float* sums) {
  const TileTag d;
  for (int t = 0; t < keys; ++t)
    sums[t] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, lanes + t * kTileLanes))) / rows;
}

// The second pass, for at most kKeyBlock keys: the weights of all rows, added up.
void WeighKeys(const AttentionJob& job, const float* query_parts, int64_t first, int keys,
               const RowSums& sums, const BlockMass& out) {
  const MassScratch scratch(*job.kv);
  HWY_ALIGN float bias[kKeyBlock + kMaxPassKeys];
  ScaleBias(job.params->key_bias, first, keys, bias);
  HWY_ALIGN float lanes[kKeyBlock * kTileLanes] = {};
  HWY_ALIGN float standing_out[kKeyBlock * kTileLanes] = {};
  const LaneSums block{
      first, keys, bias, lanes, out.standing_out != nullptr ? standing_out : nullptr, out.given};
  for (int kv_head = 0; kv_head < job.kv->kv_heads; ++kv_head) {
    for (int64_t row = 0; row < job.rows();) {
      const int vecs = TileVecs(job.rows() - row);
      const int count = static_cast<int>(std::min<int64_t>(job.rows() - row, vecs * kTileLanes));
      if (job.limit(row + count - 1) > first) {
        const auto weigh = vecs == 1 ? &WeighTile<1> : vecs == 2 ? &WeighTile<2> : &WeighTile<3>;
        weigh(job, query_parts, kv_head, row, count, sums, scratch, block);
      }
      row += count;
    }
  }
  const float rows = static_cast<float>(job.queries) * static_cast<float>(job.params->heads);
  AddLanes(lanes, keys, rows, out.mass);
  if (out.standing_out != nullptr) AddLanes(standing_out, keys, rows, out.standing_out);
}

int MassKeyBlock() { return kKeyBlock; }

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(SumRows);
HWY_EXPORT(WeighKeys);
HWY_EXPORT(MassKeyBlock);

}  // namespace

void attention_mass_cpu(Threads& threads, const AttentionJob& job, int64_t key_begin,
                        int64_t key_end, float* mass, const MassDetail& detail) {
  const int64_t all_rows = job.rows() * job.kv->kv_heads;
  Buffer<float> memory(static_cast<size_t>(2 * all_rows));
  const RowSums sums{memory.data(), memory.data() + all_rows};
  const int64_t blocks = (job.rows() + kMassRows - 1) / kMassRows;
  const int64_t tasks = blocks * job.kv->kv_heads;
  threads.for_each(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task % blocks * kMassRows;
      HWY_DYNAMIC_DISPATCH(SumRows)
      (job, static_cast<int>(task / blocks), row, std::min(row + kMassRows, job.rows()), sums);
    }
  });
  const int64_t block = HWY_DYNAMIC_DISPATCH(MassKeyBlock)();
  // Each block's own, so that no thread waits for another and the order of the sum is fixed.
  const int64_t key_blocks = (key_end - key_begin + block - 1) / block;
  std::vector<float> given(detail.given == nullptr ? 0
                                                   : static_cast<size_t>(key_blocks * all_rows));
  threads.for_each(key_end - key_begin, block, [&](int64_t begin, int64_t end) {
    const BlockMass out{
        mass + begin, detail.standing_out == nullptr ? nullptr : detail.standing_out + begin,
        detail.given == nullptr ? nullptr : given.data() + begin / block * all_rows};
    HWY_DYNAMIC_DISPATCH(WeighKeys)
    (job, detail.query_parts, key_begin + begin, static_cast<int>(end - begin), sums, out);
  });
  if (detail.given == nullptr) return;
  std::fill_n(detail.given, job.queries, 0.0f);
  for (int64_t i = 0; i < key_blocks * all_rows; ++i)
    detail.given[i % job.rows() / job.group] +=
        given[static_cast<size_t>(i)] / static_cast<float>(job.params->heads);
}

}  // namespace fovea
#endif  // HWY_ONCE
