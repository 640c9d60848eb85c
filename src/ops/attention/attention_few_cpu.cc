// SPDX-License-Identifier: Apache-2.0
// Attention of a few rows, such as the one query of a decode step: lanes hold parts of a head, each
// key and value is read once for all rows that share it, and the keys are split into parts of fixed
// size, so that threads share the reading and the result does not depend on how many there are.
#include <algorithm>
#include <cstring>

#include "ops/attention/attention_job.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_few_cpu.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/key_format_inl.h"
#include "ops/math_inl.h"

#ifndef FOVEA_ATTENTION_FEW_CPU_ONCE
#define FOVEA_ATTENTION_FEW_CPU_ONCE
namespace fovea {
namespace {

constexpr int64_t kPartKeys = 256;
// Keys taken at a time, all of one page: they stay in the nearest cache while all rows use them,
// and so many more are fetched meanwhile. Half or twice as many was slower by a fifth and more.
constexpr int kNearKeys = 8;
// So far ahead into the second cache: 32 KiB for heads of 128. With half of it, pages were slower
// by 3 %, with twice as much everything by 6 %.
constexpr int kFarKeys = 64;
static_assert(PagedKeys::kPageStep % kNearKeys == 0 && kPartKeys % kNearKeys == 0);
static_assert(PagedKeys::kNarrowPageStep % kNearKeys == 0);
constexpr float kNoScore = -1e30f;

// What a part of the keys says about a row: its greatest score, the sum of 2^(score - greatest),
// and the values weighted with them.
constexpr int64_t part_values(int head_dim) { return head_dim + 2; }

}  // namespace
}  // namespace fovea
#endif  // FOVEA_ATTENTION_FEW_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 16>;
using D4 = hn::CappedTag<float, 4>;  // head_dim is a multiple of 4
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// scores[r][j] = rows[r] . keys[j], without the scales of the keys.
template <KeyFormat kFormat, int kRows, int kKeys>
HWY_INLINE void Dots(const float* HWY_RESTRICT rows, const std::byte* HWY_RESTRICT keys,
                     int head_dim, float* HWY_RESTRICT scores) {
  constexpr int kBytes = value_bytes(kFormat);
  const D d;
  const D4 d4;
  V sums[kRows][kKeys];
  HWY_UNROLL(2)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int j = 0; j < kKeys; ++j) sums[r][j] = hn::Zero(d);
  }
  int c = 0;
  for (; c + kLanes <= head_dim; c += kLanes) {
    HWY_UNROLL(4)
    for (int j = 0; j < kKeys; ++j) {
      const V key = LoadStored<kFormat>(d, keys + (j * head_dim + c) * kBytes);
      HWY_UNROLL(2)
      for (int r = 0; r < kRows; ++r)
        sums[r][j] = hn::MulAdd(key, hn::LoadU(d, rows + r * head_dim + c), sums[r][j]);
    }
  }
  HWY_UNROLL(2)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int j = 0; j < kKeys; ++j) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][j]));
      for (int rest = c; rest < head_dim; rest += static_cast<int>(hn::Lanes(d4)))
        sum += hn::GetLane(hn::SumOfLanes(
            d4, hn::Mul(hn::LoadU(d4, rows + r * head_dim + rest),
                        LoadStored<kFormat>(d4, keys + (j * head_dim + rest) * kBytes))));
      scores[r * kPartKeys + j] = sum;
    }
  }
}

// result[r] += sum over t of weights[r][t] * values[t], for kVecs vectors of the head from column
// 0; the weights hold the scales of the values.
template <KeyFormat kFormat, int kRows, int kVecs, class Tag>
HWY_INLINE void AddColumns(Tag d, const float* HWY_RESTRICT weights,
                           const std::byte* HWY_RESTRICT values, int count, int head_dim,
                           int64_t result_stride, float* HWY_RESTRICT result) {
  const int lanes = static_cast<int>(hn::Lanes(d));
  hn::Vec<Tag> sums[kRows][kVecs];
  HWY_UNROLL(2)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVecs; ++v)
      sums[r][v] = hn::LoadU(d, result + r * result_stride + v * lanes);
  }
  for (int t = 0; t < count; ++t) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVecs; ++v) {
      const auto value =
          LoadStored<kFormat>(d, values + (t * head_dim + v * lanes) * value_bytes(kFormat));
      HWY_UNROLL(2)
      for (int r = 0; r < kRows; ++r)
        sums[r][v] = hn::MulAdd(hn::Set(d, weights[r * kPartKeys + t]), value, sums[r][v]);
    }
  }
  HWY_UNROLL(2)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVecs; ++v)
      hn::StoreU(sums[r][v], d, result + r * result_stride + v * lanes);
  }
}

template <KeyFormat kFormat, int kRows>
HWY_INLINE void ScoreRows(const float* rows, const std::byte* keys, int count, int head_dim,
                          float* scores) {
  const int row = head_dim * value_bytes(kFormat);
  int t = 0;
  for (; t + 4 <= count; t += 4)
    Dots<kFormat, kRows, 4>(rows, keys + t * row, head_dim, scores + t);
  for (; t < count; ++t) Dots<kFormat, kRows, 1>(rows, keys + t * row, head_dim, scores + t);
}

template <KeyFormat kFormat, int kRows>
HWY_INLINE void AddRows(const float* weights, const std::byte* values, int count, int head_dim,
                        int64_t stride, float* result) {
  constexpr int kBytes = value_bytes(kFormat);
  int c = 0;
  for (; c + 4 * kLanes <= head_dim; c += 4 * kLanes)
    AddColumns<kFormat, kRows, 4>(D(), weights, values + c * kBytes, count, head_dim, stride,
                                  result + c);
  for (; c + kLanes <= head_dim; c += kLanes)
    AddColumns<kFormat, kRows, 1>(D(), weights, values + c * kBytes, count, head_dim, stride,
                                  result + c);
  for (; c < head_dim; c += static_cast<int>(hn::Lanes(D4())))
    AddColumns<kFormat, kRows, 1>(D4(), weights, values + c * kBytes, count, head_dim, stride,
                                  result + c);
}

// Of a row, what stands for keys times their scales.
template <KeyFormat kFormat>
HWY_INLINE void ApplyScales(const uint16_t* HWY_RESTRICT scales, int count,
                            float* HWY_RESTRICT row) {
  if constexpr (scale_bytes(kFormat) > 0)
    for (int t = 0; t < count; ++t) row[t] *= widen_bf16(scales[t]);
}

// Scores become weights; what the row does not see, and the lanes after the last key, weigh 0.
// most_and_sum gets the greatest score and the sum of the weights.
void WeighRow(float* HWY_RESTRICT scores, int seen, int count, float* most_and_sum) {
  const D d;
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int t = seen; t < padded; ++t) scores[t] = kNoScore;
  V most = hn::Set(d, kNoScore);
  for (int t = 0; t < padded; t += kLanes) most = hn::Max(most, hn::Load(d, scores + t));
  most = hn::MaxOfLanes(d, most);
  V sum = hn::Zero(d);
  for (int t = 0; t < padded; t += kLanes) {
    const V score = hn::Load(d, scores + t);
    const V weight =
        hn::IfThenElseZero(hn::Gt(score, hn::Set(d, kNoScore)), Exp2(d, hn::Sub(score, most)));
    hn::Store(weight, d, scores + t);
    sum = hn::Add(sum, weight);
  }
  most_and_sum[0] = hn::GetLane(most);
  most_and_sum[1] = hn::GetLane(hn::SumOfLanes(d, sum));
}

// Asks for rows before they are needed: reading keys and values from memory takes two thirds of the
// time. The next ones come into the nearest cache, those after some more into the second: the
// machine's own guesses end with a page, and begin anew in the next one. `rows_at` leads from a key
// to what is read.
template <KeyFormat kFormat, class RowsAt>
HWY_INLINE void FetchAhead(const AttentionJob& job, int64_t at, const RowsAt& rows_at) {
  constexpr int kLineBytes = 64;
  constexpr int kSecondCache = 2;  // of __builtin_prefetch
  const int bytes = kNearKeys * job.head_dim * value_bytes(kFormat);
  if (at + 2 * kNearKeys <= job.keys) {
    const std::byte* next = rows_at(at + kNearKeys).values;
    for (int i = 0; i < bytes; i += kLineBytes) hwy::Prefetch(next + i);
  }
  if (at + kFarKeys + kNearKeys <= job.keys) {
    const std::byte* far = rows_at(at + kFarKeys).values;
    for (int i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(far + i, 0, kSecondCache);
  }
}

// The rows of a kv head against one part of its keys; part is [rows][part_values].
template <KeyFormat kFormat>
void AttendPartOf(const AttentionJob& job, int kv_head, int64_t first_key, float* part) {
  const int head_dim = job.head_dim;
  const int rows = static_cast<int>(job.rows());
  const int count = static_cast<int>(std::min(kPartKeys, job.keys - first_key));
  const int64_t stride = part_values(head_dim);
  const size_t row_values = static_cast<size_t>(rows) * head_dim;
  float* scores =
      attention_scratch(ScratchUse::kTile, static_cast<size_t>(rows) * kPartKeys + row_values);
  float* scaled = scores + static_cast<size_t>(rows) * kPartKeys;
  const auto keys_at = [&](int64_t key) { return job.kv->stored_key(kv_head, key); };
  const auto values_at = [&](int64_t key) { return job.kv->stored_value(kv_head, key); };
  const float factor = job.params->scale * kLog2E;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < head_dim; ++c) scaled[r * head_dim + c] = job.query(kv_head, r)[c] * factor;

  for (int t = 0; t < count; t += kNearKeys) {
    const int near = std::min(kNearKeys, count - t);
    const StoredRows keys = keys_at(first_key + t);
    FetchAhead<kFormat>(job, first_key + t, keys_at);
    float* to = scores + t;
    int r = 0;
    for (; r + 2 <= rows; r += 2)
      ScoreRows<kFormat, 2>(scaled + r * head_dim, keys.values, near, head_dim, to + r * kPartKeys);
    if (r < rows)
      ScoreRows<kFormat, 1>(scaled + r * head_dim, keys.values, near, head_dim, to + r * kPartKeys);
    for (r = 0; r < rows; ++r) ApplyScales<kFormat>(keys.scales, near, to + r * kPartKeys);
  }
  for (int r = 0; r < rows; ++r) {
    float* row = scores + r * kPartKeys;
    if (job.params->key_bias != nullptr)
      for (int t = 0; t < count; ++t) row[t] += job.params->key_bias[first_key + t] * kLog2E;
    const int64_t seen = std::clamp<int64_t>(job.limit(r) - first_key, 0, count);
    WeighRow(row, static_cast<int>(seen), count, part + r * stride + head_dim);
    std::memset(part + r * stride, 0, static_cast<size_t>(head_dim) * sizeof(float));
  }
  for (int t = 0; t < count; t += kNearKeys) {
    const int near = std::min(kNearKeys, count - t);
    const StoredRows values = values_at(first_key + t);
    FetchAhead<kFormat>(job, first_key + t, values_at);
    float* weights = scores + t;
    for (int r = 0; r < rows; ++r)
      ApplyScales<kFormat>(values.scales, near, weights + r * kPartKeys);
    int r = 0;
    for (; r + 2 <= rows; r += 2)
      AddRows<kFormat, 2>(weights + r * kPartKeys, values.values, near, head_dim, stride,
                          part + r * stride);
    if (r < rows)
      AddRows<kFormat, 1>(weights + r * kPartKeys, values.values, near, head_dim, stride,
                          part + r * stride);
  }
}

void AttendPart(const AttentionJob& job, int kv_head, int64_t first_key, float* part) {
  const auto attend = job.kv->format == KeyFormat::kF32    ? &AttendPartOf<KeyFormat::kF32>
                      : job.kv->format == KeyFormat::kBf16 ? &AttendPartOf<KeyFormat::kBf16>
                      : job.kv->format == KeyFormat::kInt8 ? &AttendPartOf<KeyFormat::kInt8>
                                                           : &AttendPartOf<KeyFormat::kFp8>;
  attend(job, kv_head, first_key, part);
}

// Brings the parts of one row together, in their order.
void MergeParts(const float* parts, int64_t count, int64_t step, int head_dim, float* out) {
  const hn::CappedTag<float, 1> d1;
  const D4 d4;
  float most = kNoScore;
  for (int64_t p = 0; p < count; ++p) most = std::max(most, parts[p * step + head_dim]);
  float sum = 0;
  std::memset(out, 0, static_cast<size_t>(head_dim) * sizeof(float));
  for (int64_t p = 0; p < count; ++p) {
    const float* part = parts + p * step;
    const float weight = hn::GetLane(Exp2(d1, hn::Set(d1, part[head_dim] - most)));
    sum += weight * part[head_dim + 1];
    for (int c = 0; c < head_dim; c += static_cast<int>(hn::Lanes(d4)))
      hn::StoreU(hn::MulAdd(hn::Set(d4, weight), hn::LoadU(d4, part + c), hn::LoadU(d4, out + c)),
                 d4, out + c);
  }
  for (int c = 0; c < head_dim; ++c) out[c] /= sum;
}

bool HasFewRows(const AttentionJob& job) { return job.queries == 1 || job.rows() <= kLanes / 2; }

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(HasFewRows);
HWY_EXPORT(AttendPart);
HWY_EXPORT(MergeParts);

}  // namespace

bool attention_has_few_rows(const AttentionJob& job) {
  return HWY_DYNAMIC_DISPATCH(HasFewRows)(job);
}

void attention_few_cpu(Threads& threads, const AttentionJob& job) {
  const int64_t parts = (job.keys + kPartKeys - 1) / kPartKeys;
  const int64_t row_step = part_values(job.head_dim);
  const int64_t part_step = row_step * job.rows();
  const int64_t tasks = parts * job.kv->kv_heads;
  float* memory = attention_scratch(ScratchUse::kShared, static_cast<size_t>(tasks * part_step));
  // Two captures: a third would make std::function ask for memory.
  threads.for_each(tasks, attention_is_small(job) ? tasks : 1,
                   [&job, memory](int64_t begin, int64_t end) {
                     const int64_t head_parts = (job.keys + kPartKeys - 1) / kPartKeys;
                     for (int64_t task = begin; task < end; ++task) HWY_DYNAMIC_DISPATCH(AttendPart)
                     (job, static_cast<int>(task / head_parts), task % head_parts * kPartKeys,
                      memory + task * job.rows() * part_values(job.head_dim));
                   });
  for (int head = 0; head < job.kv->kv_heads; ++head)
    for (int64_t row = 0; row < job.rows(); ++row) HWY_DYNAMIC_DISPATCH(MergeParts)
  (memory + head * parts * part_step + row * row_step, parts, part_step, job.head_dim,
   job.output(head, row));
}

}  // namespace fovea
#endif  // HWY_ONCE
