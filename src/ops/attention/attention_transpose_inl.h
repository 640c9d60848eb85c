// SPDX-License-Identifier: Apache-2.0
// Transposes queries to columns and results back to rows. Written for foreach_target.
#if defined(FOVEA_OPS_ATTENTION_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_ATTENTION_TRANSPOSE_INL_H
#undef FOVEA_OPS_ATTENTION_TRANSPOSE_INL_H
#else
#define FOVEA_OPS_ATTENTION_TRANSPOSE_INL_H
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "ops/attention/attention_job.h"
#include "ops/transpose_inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows that are transposed at a time: rows of many heads lie a power of two apart, and more of them
// would push each other out of the nearest cache. A tile's width is a multiple of it.
#if HWY_TARGET == HWY_SCALAR
constexpr int kTransposeRows = 1;

HWY_INLINE void TransposeIn(const float* const* rows, int c, float by, float* to, int64_t stride) {
  for (int j = 0; j < 4; ++j) to[j * stride] = by * rows[0][c + j];
}

HWY_INLINE void TransposeOut(const float* from, int64_t stride, const float* by, float* const* rows,
                             int c) {
  for (int j = 0; j < 4; ++j) rows[0][c + j] = by[0] * from[j * stride];
}
#else
constexpr int kTransposeRows = 4;

// to[j * stride + i] = by * rows[i][c + j], for i, j < 4.
HWY_INLINE void TransposeIn(const float* const* rows, int c, float by, float* to, int64_t stride) {
  const hn::Full128<float> d;
  const auto factor = hn::Set(d, by);
  auto r0 = hn::Mul(factor, hn::LoadU(d, rows[0] + c));
  auto r1 = hn::Mul(factor, hn::LoadU(d, rows[1] + c));
  auto r2 = hn::Mul(factor, hn::LoadU(d, rows[2] + c));
  auto r3 = hn::Mul(factor, hn::LoadU(d, rows[3] + c));
  transpose_blocks(d, r0, r1, r2, r3);
  hn::StoreU(r0, d, to);
  hn::StoreU(r1, d, to + stride);
  hn::StoreU(r2, d, to + 2 * stride);
  hn::StoreU(r3, d, to + 3 * stride);
}

// rows[i][c + j] = by[i] * from[j * stride + i], for i, j < 4.
HWY_INLINE void TransposeOut(const float* from, int64_t stride, const float* by, float* const* rows,
                             int c) {
  const hn::Full128<float> d;
  const auto factor = hn::LoadU(d, by);
  auto r0 = hn::Mul(factor, hn::LoadU(d, from));
  auto r1 = hn::Mul(factor, hn::LoadU(d, from + stride));
  auto r2 = hn::Mul(factor, hn::LoadU(d, from + 2 * stride));
  auto r3 = hn::Mul(factor, hn::LoadU(d, from + 3 * stride));
  transpose_blocks(d, r0, r1, r2, r3);
  hn::StoreU(r0, d, rows[0] + c);
  hn::StoreU(r1, d, rows[1] + c);
  hn::StoreU(r2, d, rows[2] + c);
  hn::StoreU(r3, d, rows[3] + c);
}
#endif  // HWY_TARGET == HWY_SCALAR

// Rows [row, row + count) of a kv head into transposed[head_dim][width], times `factor`. Lanes
// without a row repeat the last one.
inline void PackRows(const AttentionJob& job, int kv_head, int64_t row, int count, int width,
                     float factor, float* HWY_RESTRICT transposed) {
  for (int i = 0; i < width; i += kTransposeRows) {
    const float* rows[kTransposeRows];
    for (int j = 0; j < kTransposeRows; ++j)
      rows[j] = job.query(kv_head, row + std::min(i + j, count - 1));
    for (int c = 0; c < job.head_dim; c += 4)
      TransposeIn(rows, c, factor, transposed + int64_t{c} * width + i, width);
  }
}

// transposed[head_dim][width], row r times by[r], into rows [row, row + count) of the output.
inline void UnpackRows(const AttentionJob& job, int kv_head, int64_t row, int count, int width,
                       const float* HWY_RESTRICT by, const float* HWY_RESTRICT transposed) {
  float unused[kMaxHeadDim];
  for (int i = 0; i < count; i += kTransposeRows) {
    float* rows[kTransposeRows];
    for (int j = 0; j < kTransposeRows; ++j)
      rows[j] = i + j < count ? job.output(kv_head, row + i + j) : unused;
    for (int c = 0; c < job.head_dim; c += 4)
      TransposeOut(transposed + int64_t{c} * width + i, width, by + i, rows, c);
  }
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
