// SPDX-License-Identifier: Apache-2.0
// A tile of attention: lanes hold rows (queries), so that the greatest score, the sum of weights
// and the mask of a row are lanes too, keys and values are used as they lie (a value at a time,
// spread over the lanes), and only the queries and the result are transposed. Written for
// foreach_target.
//
// Scores are in units of log 2: the queries are multiplied by scale * log2(e) when packed.
#if defined(FOVEA_OPS_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_ATTENTION_TILE_INL_H
#undef FOVEA_OPS_ATTENTION_TILE_INL_H
#else
#define FOVEA_OPS_ATTENTION_TILE_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "ops/attention/attention_job.h"
#include "ops/attention/attention_transpose_inl.h"
#include "ops/key_format_inl.h"
#include "ops/math_inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using TileTag = hn::CappedTag<float, 16>;
using TileVec = hn::Vec<TileTag>;
constexpr int kTileLanes = static_cast<int>(hn::MaxLanes(TileTag()));
constexpr int kMaxVecs = 3;  // of a tile
constexpr int kMaxTileRows = kMaxVecs * kTileLanes;
constexpr int kKeyBlock = 128;

// Keys (or values of a head) that one pass of the inner loops takes: with kVecs vectors of rows
// their sums fill 24 of 32 registers, or 12 of 16.
template <int kVecs>
constexpr int PassKeys() {
  const bool many_registers = kTileLanes == 16;
  if (kVecs == 1) return many_registers ? 16 : 8;
  return many_registers ? 8 : 4;
}
constexpr int kMaxPassKeys = 16;

// Below every score, and such that the difference of two of them is finite.
constexpr float kNoScore = -1e30f;
constexpr float kMaskedScore = -1e38f;

// scores[j][row] = start[j] + sum over c of keys[j][c] * transposed[c][row], for kKeys keys.
template <int kVecs, int kKeys>
HWY_INLINE void ScorePass(const float* HWY_RESTRICT transposed, const float* HWY_RESTRICT keys,
                          const float* HWY_RESTRICT start, int head_dim,
                          float* HWY_RESTRICT scores) {
  const TileTag d;
  TileVec sums[kKeys][kVecs];
  HWY_UNROLL(16)
  for (int j = 0; j < kKeys; ++j) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVecs; ++v) sums[j][v] = hn::Set(d, start[j]);
  }
  for (int c = 0; c < head_dim; ++c) {
    TileVec rows[kVecs];
    HWY_UNROLL(3)
    for (int v = 0; v < kVecs; ++v)
      rows[v] = hn::Load(d, transposed + (c * kVecs + v) * kTileLanes);
    HWY_UNROLL(16)
    for (int j = 0; j < kKeys; ++j) {
      const TileVec key = hn::Set(d, keys[j * head_dim + c]);
      HWY_UNROLL(3)
      for (int v = 0; v < kVecs; ++v) sums[j][v] = hn::MulAdd(key, rows[v], sums[j][v]);
    }
  }
  HWY_UNROLL(16)
  for (int j = 0; j < kKeys; ++j) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVecs; ++v) hn::Store(sums[j][v], d, scores + (j * kVecs + v) * kTileLanes);
  }
}

// Keys and values that lie side by side, in one page.
struct KeyRun {
  const float* keys = nullptr;
  const float* values = nullptr;
  int count = 0;
};

// At most kKeyBlock keys of a head, by the pages they lie in; they may begin inside one.
struct KeyRuns {
  static constexpr int kMostRuns = kKeyBlock / PagedKeys::kPageStep + 1;

  KeyRuns() = default;
  // What is not f32 becomes so in `wide`, wide_values() of them: keys, then values, where `values`
  // are wanted.
  KeyRuns(const PagedKeys& kv, int kv_head, int64_t first, int keys, float* wide = nullptr,
          bool values = true) {
    if (kv.format != KeyFormat::kF32) {
      run[runs++] = {wide, wide + int64_t{kKeyBlock} * kv.head_dim, keys};
      for (int done = 0; done < keys;) {
        const auto count = std::min<int64_t>(keys - done, kv.run(first + done));
        float* to = wide + int64_t{done} * kv.head_dim;
        WidenRows(kv.format, kv.stored_key(kv_head, first + done), count, kv.head_dim, to);
        if (values)
          WidenRows(kv.format, kv.stored_value(kv_head, first + done), count, kv.head_dim,
                    to + int64_t{kKeyBlock} * kv.head_dim);
        done += static_cast<int>(count);
      }
      return;
    }
    for (int done = 0; done < keys; done += run[runs++].count) {
      const float* at = kv.key(kv_head, first + done);
      run[runs] = {at, at + kv.value_after_key(),
                   static_cast<int>(std::min<int64_t>(keys - done, kv.run(first + done)))};
    }
  }

  // Floats that a caller has ready for it.
  static size_t wide_values(const PagedKeys& kv) {
    return kv.format == KeyFormat::kF32 ? 0 : size_t{2 * kKeyBlock} * kv.head_dim;
  }

  KeyRun run[kMostRuns];
  int runs = 0;
};

// The scores of the `count` keys of a run. The last few keys are copied into `spare` first
// ([kMaxPassKeys][head_dim]), so that nothing beyond them is read; scores has room for a whole
// pass.
template <int kVecs>
HWY_INLINE void ScoreRun(const float* transposed, const float* keys, const float* start, int count,
                         int head_dim, float* spare, float* scores) {
  constexpr int kKeys = PassKeys<kVecs>();
  int t = 0;
  for (; t + kKeys <= count; t += kKeys)
    ScorePass<kVecs, kKeys>(transposed, keys + int64_t{t} * head_dim, start + t, head_dim,
                            scores + int64_t{t} * kVecs * kTileLanes);
  if (t == count) return;
  const size_t values = static_cast<size_t>(count - t) * head_dim;
  std::memcpy(spare, keys + int64_t{t} * head_dim, values * sizeof(float));
  std::memset(spare + values, 0, (static_cast<size_t>(kKeys) * head_dim - values) * sizeof(float));
  ScorePass<kVecs, kKeys>(transposed, spare, start + t, head_dim,
                          scores + int64_t{t} * kVecs * kTileLanes);
}

// The scores of the first `count` keys.
template <int kVecs>
HWY_INLINE void Scores(const float* transposed, const KeyRuns& keys, const float* start, int count,
                       int head_dim, float* spare, float* scores) {
  for (int i = 0, done = 0; done < count; done += keys.run[i++].count)
    ScoreRun<kVecs>(transposed, keys.run[i].keys, start + done,
                    std::min(keys.run[i].count, count - done), head_dim, spare,
                    scores + int64_t{done} * kVecs * kTileLanes);
}

// What is known of each row of a tile after some keys.
struct RowState {
  HWY_ALIGN float most[kMaxTileRows];    // the greatest score
  HWY_ALIGN float sum[kMaxTileRows];     // of 2^(score - most)
  HWY_ALIGN float shrink[kMaxTileRows];  // 2^(most before the last block - most)
  HWY_ALIGN int32_t limit[kMaxTileRows];

  void Start(const AttentionJob& job, int64_t row, int count) {
    for (int i = 0; i < kMaxTileRows; ++i) {
      most[i] = kNoScore;
      sum[i] = 0;
      limit[i] = static_cast<int32_t>(job.limit(row + std::min(i, count - 1)));
    }
  }
};

// Gives the keys that a row does not see a score that is no score.
template <int kVecs>
HWY_INLINE void MaskScores(const RowState& state, int32_t first_key, int count,
                           float* HWY_RESTRICT scores) {
  const TileTag d;
  const hn::RebindToSigned<TileTag> di;
  const TileVec masked = hn::Set(d, kMaskedScore);
  for (int t = 0; t < count; ++t) {
    const auto key = hn::Set(di, first_key + t);
    for (int v = 0; v < kVecs; ++v) {
      float* score = scores + (t * kVecs + v) * kTileLanes;
      const auto seen = hn::Gt(hn::Load(di, state.limit + v * kTileLanes), key);
      const auto score_if_seen =
          hn::IfThenElse(hn::RebindMask(d, seen), hn::Load(d, score), masked);
      hn::Store(score_if_seen, d, score);
    }
  }
}

// scores = 2^(scores - most), with `most`, `sum` and `shrink` brought up to date.
template <int kVecs, bool kMasked, bool kKeep>
HWY_INLINE void Weights(RowState& state, int count, float* HWY_RESTRICT scores) {
  const TileTag d;
  TileVec most[kVecs];
  TileVec sum[kVecs];
  HWY_UNROLL(3)
  for (int v = 0; v < kVecs; ++v) {
    most[v] = hn::Load(d, state.most + v * kTileLanes);
    sum[v] = hn::Zero(d);
  }
  for (int t = 0; t < count; ++t) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVecs; ++v)
      most[v] = hn::Max(most[v], hn::Load(d, scores + (t * kVecs + v) * kTileLanes));
  }
  for (int t = 0; t < count; ++t) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVecs; ++v) {
      float* at = scores + (t * kVecs + v) * kTileLanes;
      const TileVec score = hn::Load(d, at);
      TileVec weight = Exp2(d, hn::Sub(score, most[v]));
      if constexpr (kMasked)
        weight = hn::IfThenElseZero(hn::Gt(score, hn::Set(d, kMaskedScore)), weight);
      sum[v] = hn::Add(sum[v], weight);
      if constexpr (kKeep) hn::Store(weight, d, at);
    }
  }
  HWY_UNROLL(3)
  for (int v = 0; v < kVecs; ++v) {
    const TileVec shrink = Exp2(d, hn::Sub(hn::Load(d, state.most + v * kTileLanes), most[v]));
    hn::Store(shrink, d, state.shrink + v * kTileLanes);
    hn::Store(most[v], d, state.most + v * kTileLanes);
    const TileVec before = hn::Load(d, state.sum + v * kTileLanes);
    hn::Store(hn::MulAdd(before, shrink, sum[v]), d, state.sum + v * kTileLanes);
  }
}

// result[c][row] = shrink[row] * result[c][row] + sum over t of values[t][c] * weights[t][row], for
// kCols columns c of the values, from `column` on.
template <int kVecs, int kCols>
HWY_INLINE void SumPass(const RowState& state, const KeyRuns& keys, int column, int head_dim,
                        const float* HWY_RESTRICT weights, int count, float* HWY_RESTRICT result) {
  const TileTag d;
  TileVec sums[kCols][kVecs];
  HWY_UNROLL(16)
  for (int c = 0; c < kCols; ++c) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVecs; ++v)
      sums[c][v] = hn::Mul(hn::Load(d, state.shrink + v * kTileLanes),
                           hn::Load(d, result + (c * kVecs + v) * kTileLanes));
  }
  for (int i = 0, done = 0; done < count; done += keys.run[i++].count) {
    const float* HWY_RESTRICT values = keys.run[i].values + column;
    const int end = std::min(done + keys.run[i].count, count);
    for (int t = done; t < end; ++t, values += head_dim) {
      TileVec rows[kVecs];
      HWY_UNROLL(3)
      for (int v = 0; v < kVecs; ++v) rows[v] = hn::Load(d, weights + (t * kVecs + v) * kTileLanes);
      HWY_UNROLL(16)
      for (int c = 0; c < kCols; ++c) {
        const TileVec value = hn::Set(d, values[c]);
        HWY_UNROLL(3)
        for (int v = 0; v < kVecs; ++v) sums[c][v] = hn::MulAdd(value, rows[v], sums[c][v]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int c = 0; c < kCols; ++c) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVecs; ++v) hn::Store(sums[c][v], d, result + (c * kVecs + v) * kTileLanes);
  }
}

// The same for all columns.
template <int kVecs>
HWY_INLINE void AddValues(const RowState& state, const KeyRuns& keys, int head_dim,
                          const float* weights, int count, float* result) {
  constexpr int kCols = PassKeys<kVecs>();
  int c = 0;
  for (; c + kCols <= head_dim; c += kCols)
    SumPass<kVecs, kCols>(state, keys, c, head_dim, weights, count,
                          result + c * kVecs * kTileLanes);
  for (; c < head_dim; c += 4)
    SumPass<kVecs, 4>(state, keys, c, head_dim, weights, count, result + c * kVecs * kTileLanes);
}

// How many vectors the next tile of so many rows takes: 4 are better taken 2 by 2.
inline int TileVecs(int64_t rows) {
  const int64_t vecs = (rows + kTileLanes - 1) / kTileLanes;
  return vecs == 4 ? 2 : static_cast<int>(std::min<int64_t>(vecs, kMaxVecs));
}

// Scales the biases of keys [first, first + count) to units of log 2; zeros without a bias.
inline void ScaleBias(const float* bias, int64_t first, int count, float* HWY_RESTRICT scaled) {
  for (int t = 0; t < count; ++t) scaled[t] = bias == nullptr ? 0 : bias[first + t] * kLog2E;
  for (int t = count; t < kKeyBlock + kMaxPassKeys; ++t) scaled[t] = 0;
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
