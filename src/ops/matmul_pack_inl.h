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

// 16 bytes from each of four rows, transposed.
struct Quad {
  hn::Vec128<uint32_t> v[4];
};
template <class W>
HWY_INLINE Quad load_quad(const W* row0, const W* row1, const W* row2, const W* row3) {
  const hn::Full128<uint8_t> bytes;
  const hn::Full128<uint32_t> d;
  const auto load = [&](const W* from) HWY_ATTR {
    return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(from)));
  };
  Quad quad{{load(row0), load(row1), load(row2), load(row3)}};
  transpose_blocks(d, quad.v[0], quad.v[1], quad.v[2], quad.v[3]);
  return quad;
}

// out[c] = lanes 0..lanes - 1 of `rows`, each 64 bytes of a row from column c on, as 16 columns of
// 32 bits. A row is read once, a whole cache line at a time: the same column of many rows falls
// into the same few places of the cache when rows are a power of two long.
template <class W, class Store>
HWY_INLINE void transpose_lines(const W* const* rows, int64_t c, const Store& store) {
  const D32 d;
#if HWY_MAX_BYTES == 64
  const auto load = [&](int64_t r) HWY_ATTR {
    const hn::Repartition<uint8_t, D32> bytes;
    return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(rows[r] + c)));
  };
  V32 t[4][4];  // [rows / 4][column % 4]: block b holds column 4 b + q of four rows
  FOVEA_UNROLL
  for (int g = 0; g < 4; ++g) {
    FOVEA_UNROLL
    for (int q = 0; q < 4; ++q) t[g][q] = load(4 * g + q);
    transpose_blocks(d, t[g][0], t[g][1], t[g][2], t[g][3]);
  }
  FOVEA_UNROLL
  for (int q = 0; q < 4; ++q) {
    const auto low01 = hn::ConcatLowerLower(d, t[1][q], t[0][q]);
    const auto low23 = hn::ConcatLowerLower(d, t[3][q], t[2][q]);
    const auto high01 = hn::ConcatUpperUpper(d, t[1][q], t[0][q]);
    const auto high23 = hn::ConcatUpperUpper(d, t[3][q], t[2][q]);
    store(q, V32{_mm512_shuffle_i32x4(low01.raw, low23.raw, 0x88)});
    store(4 + q, V32{_mm512_shuffle_i32x4(low01.raw, low23.raw, 0xDD)});
    store(8 + q, V32{_mm512_shuffle_i32x4(high01.raw, high23.raw, 0x88)});
    store(12 + q, V32{_mm512_shuffle_i32x4(high01.raw, high23.raw, 0xDD)});
  }
#else
  FOVEA_UNROLL
  for (int64_t part = 0; part < 16; part += 4) {
    V32 v[4];
    FOVEA_UNROLL
    for (int q = 0; q < 4; ++q)
      v[q] = load_rows(rows + q, c + part * static_cast<int64_t>(4 / sizeof(W)));
    transpose_blocks(d, v[0], v[1], v[2], v[3]);
    FOVEA_UNROLL
    for (int q = 0; q < 4; ++q) store(part + q, v[q]);
  }
#endif
}

// packed[c][j] = weights[j][c] for j < kWide, c < depth. Rows from `rows` on, which do not exist,
// repeat the last one.
template <class W>
HWY_INLINE void pack_weights(const W* HWY_RESTRICT weights, int64_t stride, int64_t rows,
                             int64_t depth, float* HWY_RESTRICT packed) {
  constexpr int64_t kStep = 64 / sizeof(W);
  const DF df;
  const auto high_half = hn::Set(D32(), 0xFFFF0000U);
  for (int64_t part = 0; part < kWide; part += kLanes) {
    const W* from[kLanes];
    for (int64_t r = 0; r < kLanes; ++r) from[r] = weights + std::min(part + r, rows - 1) * stride;
    int64_t c = 0;
    for (; c + kStep <= depth; c += kStep) {
      float* to = packed + c * kWide + part;
      transpose_lines(from, c, [&](int64_t column, V32 values) HWY_ATTR {
        if constexpr (sizeof(W) == 4) {
          hn::Store(hn::BitCast(df, values), df, to + column * kWide);
        } else {  // two columns in each 32 bits, the first in the lower half
          hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(values)), df, to + 2 * column * kWide);
          hn::Store(hn::BitCast(df, hn::And(values, high_half)), df, to + (2 * column + 1) * kWide);
        }
      });
    }
    for (; c < depth; ++c)
      for (int64_t r = 0; r < kLanes; ++r) packed[c * kWide + part + r] = widen(from[r][c]);
  }
}

// packed[c][i] = x[i][c] for i < rows, c < depth.
HWY_INLINE void pack_input(const float* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t depth,
                           float* HWY_RESTRICT packed) {
  const hn::Full128<float> df;
  const int64_t whole = rows >= 4 ? depth / 4 * 4 : 0;
  for (int64_t i = 0; i < rows && whole > 0; i += 4) {
    // The last four rows may be some of those before, written twice.
    const int64_t first = std::min(i, rows - 4);
    const float* row = x + first * stride;
    for (int64_t c = 0; c < whole; c += 4) {
      const Quad quad =
          load_quad(row + c, row + stride + c, row + 2 * stride + c, row + 3 * stride + c);
      FOVEA_UNROLL
      for (int q = 0; q < 4; ++q)
        hn::StoreU(hn::BitCast(df, quad.v[q]), df, packed + (c + q) * rows + first);
    }
  }
  for (int64_t c = whole; c < depth; ++c)
    for (int64_t i = 0; i < rows; ++i) packed[c * rows + i] = x[i * stride + c];
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif
