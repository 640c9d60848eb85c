// SPDX-License-Identifier: Apache-2.0
// Lanes hold features. A kv head and a block of 64 features is a task: it adds up all keys and
// values, each feature less the largest so far of the block, so that nothing overflows; then a head
// and some rows are one.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "ops/attention/attention_job.h"
#include "ops/attention/sparse/random_features.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/sparse/random_features_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/math_inl.h"

#ifndef FOVEA_RANDOM_FEATURES_CPU_ONCE
#define FOVEA_RANDOM_FEATURES_CPU_ONCE
namespace fovea {
namespace {

constexpr int kChunk = 8;  // rows that are worked on at once

struct FeatureJob {
  const SparseAttention* given = nullptr;
  int features = 0;
  const float* directions = nullptr;  // [blocks][head_dim][kFeatureBlock], times sqrt(scale)
  float* sums = nullptr;              // [kv_heads][blocks][head_dim + 1][kFeatureBlock]
  float* most = nullptr;              // [kv_heads][blocks]: what was taken off
  float* out = nullptr;
  int64_t out_stride = 0;

  int blocks() const { return features / kFeatureBlock; }
  int head_dim() const { return given->kv->head_dim; }
  const float* directions_of(int block) const {
    return directions + int64_t{block} * head_dim() * kFeatureBlock;
  }
  float* sums_of(int kv_head, int block) const {
    return sums + (int64_t{kv_head} * blocks() + block) * (head_dim() + 1) * kFeatureBlock;
  }
  float* most_of(int kv_head) const { return most + int64_t{kv_head} * blocks(); }
};

}  // namespace
}  // namespace fovea
#endif  // FOVEA_RANDOM_FEATURES_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
static_assert(kFeatureBlock % kLanes == 0);

// logs[row][feature] = w . x of kChunk rows.
void Project(const float* directions, const float* const* rows, int head_dim, float* logs) {
  const Tag d;
  for (int v = 0; v < kFeatureBlock; v += kLanes) {
    Vec sums[kChunk];
    for (Vec& sum : sums) sum = hn::Zero(d);
    for (int i = 0; i < head_dim; ++i) {
      const Vec w = hn::Load(d, directions + i * kFeatureBlock + v);
      HWY_UNROLL(kChunk)
      for (int r = 0; r < kChunk; ++r) sums[r] = hn::MulAdd(hn::Set(d, rows[r][i]), w, sums[r]);
    }
    for (int r = 0; r < kChunk; ++r) hn::Store(sums[r], d, logs + r * kFeatureBlock + v);
  }
}

float LargestOf(const float* logs, int count) {
  const Tag d;
  Vec most = hn::Load(d, logs);
  for (int i = kLanes; i < count; i += kLanes) most = hn::Max(most, hn::Load(d, logs + i));
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

// x = e^(x + shift)
void ExpAll(float* x, int count, float shift) {
  const Tag d;
  for (int i = 0; i < count; i += kLanes)
    hn::Store(Exp(d, hn::Add(hn::Load(d, x + i), hn::Set(d, shift))), d, x + i);
}

// sums[c][feature] += values[row][c] * weights[row][feature]; the last of them += weights.
void AddValues(const float* const* values, const float* weights, int head_dim, float* sums) {
  const Tag d;
  for (int v = 0; v < kFeatureBlock; v += kLanes) {
    for (int c = 0; c < head_dim; c += 4) {
      Vec sum[4];
      for (int j = 0; j < 4; ++j) sum[j] = hn::Load(d, sums + (c + j) * kFeatureBlock + v);
      HWY_UNROLL(kChunk)
      for (int r = 0; r < kChunk; ++r) {
        const Vec weight = hn::Load(d, weights + r * kFeatureBlock + v);
        for (int j = 0; j < 4; ++j)
          sum[j] = hn::MulAdd(hn::Set(d, values[r][c + j]), weight, sum[j]);
      }
      for (int j = 0; j < 4; ++j) hn::Store(sum[j], d, sums + (c + j) * kFeatureBlock + v);
    }
    Vec all = hn::Load(d, sums + head_dim * kFeatureBlock + v);
    for (int r = 0; r < kChunk; ++r)
      all = hn::Add(all, hn::Load(d, weights + r * kFeatureBlock + v));
    hn::Store(all, d, sums + head_dim * kFeatureBlock + v);
  }
}

void SumKeys(const FeatureJob& job, int kv_head, int block) {
  constexpr float kNone = -1e30f;
  const PagedKeys& kv = *job.given->kv;
  const AttentionParams& params = *job.given->params;
  const int head_dim = kv.head_dim;
  float* sums = job.sums_of(kv_head, block);
  HWY_ALIGN float logs[kChunk * kFeatureBlock];
  float most = kNone;
  std::fill_n(sums, (head_dim + 1) * kFeatureBlock, 0.0f);
  for (int64_t first = 0; first < kv.size; first += kChunk) {
    const float* keys[kChunk];
    const float* values[kChunk];
    for (int64_t r = 0; r < kChunk; ++r) {
      keys[r] = kv.key(kv_head, std::min(first + r, kv.size - 1));
      values[r] = keys[r] + kv.value_after_key();
    }
    Project(job.directions_of(block), keys, head_dim, logs);
    const Tag d;
    for (int64_t r = 0; r < kChunk; ++r) {
      float norm = 0;
      for (int i = 0; i < head_dim; ++i) norm += keys[r][i] * keys[r][i];
      float shift = -params.scale * norm / 2;
      if (params.key_bias != nullptr) shift += params.key_bias[std::min(first + r, kv.size - 1)];
      if (first + r >= kv.size) shift = kNone;  // the last key again, which counts for nothing
      for (int v = 0; v < kFeatureBlock; v += kLanes) {
        float* at = logs + r * kFeatureBlock + v;
        hn::Store(hn::Add(hn::Load(d, at), hn::Set(d, shift)), d, at);
      }
    }
    const float largest = LargestOf(logs, kChunk * kFeatureBlock);
    if (largest > most) {
      const float factor = std::exp(most - largest);
      for (int i = 0; i < (head_dim + 1) * kFeatureBlock; i += kLanes)
        hn::Store(hn::Mul(hn::Load(d, sums + i), hn::Set(d, factor)), d, sums + i);
      most = largest;
    }
    ExpAll(logs, kChunk * kFeatureBlock, -most);
    AddValues(values, logs, head_dim, sums);
  }
  job.most_of(kv_head)[block] = most;
}

// All blocks of a head less the same.
void LevelBlocks(const FeatureJob& job, int kv_head) {
  const Tag d;
  const float* most = job.most_of(kv_head);
  const float largest = *std::max_element(most, most + job.blocks());
  for (int block = 0; block < job.blocks(); ++block) {
    float* sums = job.sums_of(kv_head, block);
    const Vec factor = hn::Set(d, std::exp(most[block] - largest));
    for (int i = 0; i < (job.head_dim() + 1) * kFeatureBlock; i += kLanes)
      hn::Store(hn::Mul(hn::Load(d, sums + i), factor), d, sums + i);
  }
}

// The outputs of kChunk rows of a head, or as many as there are; weights: [blocks][kChunk][...].
void AttendRows(const FeatureJob& job, int head, int64_t first, float* weights) {
  const SparseAttention& given = *job.given;
  const int head_dim = job.head_dim();
  const int kv_head = head / (given.params->heads / given.kv->kv_heads);
  const int64_t count = std::min<int64_t>(kChunk, given.kv->size - first);
  const float* rows[kChunk];
  for (int64_t r = 0; r < kChunk; ++r)
    rows[r] =
        given.q + (first + std::min(r, count - 1)) * given.q_stride + int64_t{head} * head_dim;
  constexpr int kRowsOfBlock = kChunk * kFeatureBlock;
  for (int block = 0; block < job.blocks(); ++block)
    Project(job.directions_of(block), rows, head_dim, weights + block * kRowsOfBlock);
  for (int64_t r = 0; r < kChunk; ++r) {  // what a query has less falls out of the ratio
    const auto part = [&](int block) { return weights + block * kRowsOfBlock + r * kFeatureBlock; };
    float most = LargestOf(part(0), kFeatureBlock);
    for (int block = 1; block < job.blocks(); ++block)
      most = std::max(most, LargestOf(part(block), kFeatureBlock));
    for (int block = 0; block < job.blocks(); ++block) ExpAll(part(block), kFeatureBlock, -most);
  }
  const Tag d;
  float shares[kChunk];
  for (int c = head_dim; c >= 0; --c) {  // the sum of weights first
    Vec sum[kChunk];
    for (Vec& one : sum) one = hn::Zero(d);
    for (int block = 0; block < job.blocks(); ++block) {
      const float* sums = job.sums_of(kv_head, block) + c * kFeatureBlock;
      for (int v = 0; v < kFeatureBlock; v += kLanes) {
        const Vec keys = hn::Load(d, sums + v);
        HWY_UNROLL(kChunk)
        for (int r = 0; r < kChunk; ++r)
          sum[r] = hn::MulAdd(hn::Load(d, weights + block * kRowsOfBlock + r * kFeatureBlock + v),
                              keys, sum[r]);
      }
    }
    for (int64_t r = 0; r < count; ++r) {
      const float value = hn::GetLane(hn::SumOfLanes(d, sum[r]));
      if (c == head_dim)
        shares[r] = 1 / value;
      else
        job.out[(first + r) * job.out_stride + int64_t{head} * head_dim + c] = value * shares[r];
    }
  }
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(SumKeys);
HWY_EXPORT(LevelBlocks);
HWY_EXPORT(AttendRows);

Buffer<float> transposed_directions(int features, int head_dim, float scale) {
  const std::vector<float> directions = random_directions(features, head_dim);
  Buffer<float> transposed(directions.size());
  const float root = std::sqrt(scale);
  for (int64_t j = 0; j < features; ++j)
    for (int64_t i = 0; i < head_dim; ++i)
      transposed[static_cast<size_t>((j / kFeatureBlock * head_dim + i) * kFeatureBlock +
                                     j % kFeatureBlock)] =
          root * directions[static_cast<size_t>(j * head_dim + i)];
  return transposed;
}

}  // namespace

void attend_by_features(Threads& threads, const SparseAttention& given, int features, float* out,
                        int64_t out_stride) {
  const PagedKeys& kv = *given.kv;
  const AttentionParams& params = *given.params;
  FOVEA_CHECK(params.heads > 0 && kv.kv_heads > 0 && params.heads % kv.kv_heads == 0);
  FOVEA_CHECK(kv.head_dim % 4 == 0 && kv.head_dim > 0 && kv.head_dim <= kMaxHeadDim);
  FOVEA_CHECK(features > 0 && features % kFeatureBlock == 0 && !params.causal && params.scale >= 0);
  if (kv.size == 0) return;
  const int blocks = features / kFeatureBlock;
  const Buffer<float> directions = transposed_directions(features, kv.head_dim, params.scale);
  Buffer<float> sums(static_cast<size_t>(int64_t{kv.kv_heads} * features * (kv.head_dim + 1)));
  std::vector<float> most(static_cast<size_t>(kv.kv_heads * blocks));
  const FeatureJob job{&given,      features, directions.data(), sums.data(),
                       most.data(), out,      out_stride};
  threads.for_each(int64_t{kv.kv_heads} * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) HWY_DYNAMIC_DISPATCH(SumKeys)
    (job, static_cast<int>(task / blocks), static_cast<int>(task % blocks));
  });
  for (int head = 0; head < kv.kv_heads; ++head) HWY_DYNAMIC_DISPATCH(LevelBlocks)(job, head);
  const int64_t chunks = (kv.size + kChunk - 1) / kChunk;
  threads.for_each(int64_t{params.heads} * chunks, 8, [&](int64_t begin, int64_t end) {
    float* weights = attention_scratch(ScratchUse::kTile, static_cast<size_t>(features) * kChunk);
    for (int64_t task = begin; task < end; ++task) HWY_DYNAMIC_DISPATCH(AttendRows)
    (job, static_cast<int>(task / chunks), task % chunks * kChunk, weights);
  });
}

}  // namespace fovea
#endif  // HWY_ONCE
