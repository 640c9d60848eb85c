// SPDX-License-Identifier: Apache-2.0
// Packing for matmul_gemm_cpu.cc. No ordinary include guard: it is compiled once for each SIMD
// target.
#include <hwy/highway.h>

#include "ops/matmul_gemm_cpu.h"
#include "ops/transpose_inl.h"

#if defined(FOVEA_OPS_MATMUL_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_MATMUL_PACK_INL_H_
#undef FOVEA_OPS_MATMUL_PACK_INL_H_
#else
#define FOVEA_OPS_MATMUL_PACK_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

constexpr int64_t kWide = 2 * kLanes;
// Two vectors of sums for each row: 24 of 32 registers, 12 of 16.
constexpr int kTall = HWY_MAX_BYTES >= 64 ? 12 : 6;

HWY_INLINE float widen(float value) { return value; }
HWY_INLINE float widen(uint16_t bits) { return hwy::F32FromBF16(hwy::bfloat16_t{bits}); }

#if HWY_TARGET == HWY_SCALAR

template <class W>
void pack_weights(const W* weights, int64_t stride, int64_t rows, int64_t depth, float* packed) {
  for (int64_t c = 0; c < depth; ++c)
    for (int64_t j = 0; j < kWide; ++j)
      packed[c * kWide + j] = widen(weights[std::min(j, rows - 1) * stride + c]);
}

inline void pack_input(const float* x, int64_t stride, int64_t rows, int64_t depth, float* packed) {
  for (int64_t c = 0; c < depth; ++c)
    for (int64_t i = 0; i < rows; ++i) packed[c * rows + i] = x[i * stride + c];
}

#else

// packed[c][j] = weights[j][c] for j < kWide, c < depth. Rows from `rows` on, which do not exist,
// repeat the last one.
template <class W>
HWY_INLINE void pack_weights(const W* HWY_RESTRICT weights, int64_t stride, int64_t rows,
                             int64_t depth, float* HWY_RESTRICT packed) {
  constexpr int64_t kStep = 16 / sizeof(W);
  const DF df;
  const D32 d32;
  const auto high_half = hn::Set(d32, 0xFFFF0000U);
  for (int64_t part = 0; part < kWide; part += kLanes) {
    const W* from[kLanes];
    for (int64_t r = 0; r < kLanes; ++r) from[r] = weights + std::min(part + r, rows - 1) * stride;
    float* to = packed + part;
    int64_t c = 0;
    for (; c + kStep <= depth; c += kStep) {
      V32 v[4];
      FOVEA_UNROLL
      for (int q = 0; q < 4; ++q) v[q] = load_rows(from + q, c);
      transpose_blocks(d32, v[0], v[1], v[2], v[3]);
      FOVEA_UNROLL
      for (int q = 0; q < 4; ++q) {
        if constexpr (sizeof(W) == 4) {
          hn::Store(hn::BitCast(df, v[q]), df, to + (c + q) * kWide);
        } else {  // two columns in each 32 bits, the first in the lower half
          hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(v[q])), df, to + (c + 2 * q) * kWide);
          hn::Store(hn::BitCast(df, hn::And(v[q], high_half)), df, to + (c + 2 * q + 1) * kWide);
        }
      }
    }
    for (; c < depth; ++c)
      for (int64_t r = 0; r < kLanes; ++r) to[c * kWide + r] = widen(from[r][c]);
  }
}

// packed[c][i] = x[i][c] for i < rows, c < depth.
HWY_INLINE void pack_input(const float* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t depth,
                           float* HWY_RESTRICT packed) {
  const hn::Full128<float> d4;
  const int64_t c_whole = rows >= 4 ? depth / 4 * 4 : 0;
  for (int64_t c = 0; c < c_whole; c += 4) {
    // The last four rows may be some of those before, written twice.
    for (int64_t i = 0; i < rows; i += 4) {
      const int64_t row = std::min(i, rows - 4);
      auto v0 = hn::LoadU(d4, x + row * stride + c);
      auto v1 = hn::LoadU(d4, x + (row + 1) * stride + c);
      auto v2 = hn::LoadU(d4, x + (row + 2) * stride + c);
      auto v3 = hn::LoadU(d4, x + (row + 3) * stride + c);
      transpose_blocks(d4, v0, v1, v2, v3);
      hn::StoreU(v0, d4, packed + c * rows + row);
      hn::StoreU(v1, d4, packed + (c + 1) * rows + row);
      hn::StoreU(v2, d4, packed + (c + 2) * rows + row);
      hn::StoreU(v3, d4, packed + (c + 3) * rows + row);
    }
  }
  for (int64_t c = c_whole; c < depth; ++c)
    for (int64_t i = 0; i < rows; ++i) packed[c * rows + i] = x[i * stride + c];
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif
