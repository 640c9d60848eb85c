// SPDX-License-Identifier: Apache-2.0
// int8 with the instructions that sum four products of bytes at once (AVX-512 VNNI, AVX-VNNI),
// which Highway does not offer. A tile is a panel of 16 outputs by up to `tall` rows of x; each
// step takes 4 columns: 64 bytes of weights, and 4 bytes of each row of x, the same for all lanes.
#include "ops/matmul_int8_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if !defined(__clang__)
// GCC 12 warns of the values that its own header leaves undefined on purpose (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// A function cannot be inlined into one with fewer features, so that all have the same.
#define FOVEA_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))
#define FOVEA_AVX2 __attribute__((target("avx2,avxvnni,fma")))
#define FOVEA_INLINE inline __attribute__((always_inline))

namespace fovea {
namespace {

// Where a tile reads and writes.
struct Tile {
  const uint8_t* weights = nullptr;  // of a panel
  const uint8_t* w_scales = nullptr;
  const int8_t* x = nullptr;
  const float* x_scales = nullptr;
  const int32_t* starts = nullptr;
  int64_t blocks = 0;
  const Product* product = nullptr;
  int64_t i = 0;  // first row
  int64_t j = 0;  // first output
  int64_t columns = 0;
};

template <int kM>
FOVEA_AVX512 FOVEA_INLINE void store_avx512(const __m512* sums, const Tile& tile) {
  const auto mask = static_cast<__mmask16>((1U << tile.columns) - 1);
  const Product& product = *tile.product;
  const int64_t stride = output_stride(product);
  FOVEA_UNROLL
  for (int i = 0; i < kM; ++i) {
    float* y = product.y + (tile.i + i) * stride + tile.j;
    __m512 sum = sums[i];
    if (product.bias != nullptr)
      sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, product.bias + tile.j));
    if (product.accumulate) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), sum);
    _mm512_mask_storeu_ps(y, mask, sum);
  }
}

template <int kM>
FOVEA_AVX512 FOVEA_INLINE void tile_avx512(const Tile& tile) {
  const uint8_t* weights = tile.weights;
  const auto* w_scales = reinterpret_cast<const __m256i*>(tile.w_scales);
  const int8_t* x = tile.x;
  const float* x_scales = tile.x_scales;
  const int32_t* starts = tile.starts;
  __m512 sums[kM];
  FOVEA_UNROLL
  for (int i = 0; i < kM; ++i) sums[i] = _mm512_setzero_ps();
  for (int64_t b = 0; b < tile.blocks; ++b) {
    __m512i block[kM];
    FOVEA_UNROLL
    for (int i = 0; i < kM; ++i) block[i] = _mm512_set1_epi32(starts[i]);
    FOVEA_UNROLL
    for (int g = 0; g < 16; ++g) {
      const __m512i weight = _mm512_load_si512(weights + g * 64);
      FOVEA_UNROLL
      for (int i = 0; i < kM; ++i) {
        int32_t four;
        __builtin_memcpy(&four, x + (g * kM + i) * 4, 4);
        block[i] = _mm512_dpbusd_epi32(block[i], weight, _mm512_set1_epi32(four));
      }
    }
    const __m512 w_scale = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(w_scales + b)), 16));
    FOVEA_UNROLL
    for (int i = 0; i < kM; ++i)
      sums[i] =
          _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(block[i]), _mm512_set1_ps(x_scales[i])),
                          w_scale, sums[i]);
    weights += 1024;
    x += 64 * kM;
    x_scales += kM;
    starts += kM;
  }
  store_avx512<kM>(sums, tile);
}

// The same for kP panels at once, each a stream of weights. Where x has several rows, computing
// takes as long as reading: the weights of the next panels are asked for meanwhile, into the second
// cache (eight rows take 1.2 times as long as one, 1.7 times without that, 2.2 times panel by
// panel). One or two rows are done sooner than such a request is answered: what half of the streams
// read next is asked for alone; with all of them it is slower.
template <int kM, int kP>
FOVEA_AVX512 FOVEA_INLINE void streams_avx512(const Tile& tile, int64_t panel_bytes) {
  constexpr int kAhead = kM > 2 ? kP : kP / 2;
  const uint8_t* weights = tile.weights;
  const uint8_t* w_scales = tile.w_scales;
  const int8_t* x = tile.x;
  const float* x_scales = tile.x_scales;
  const int32_t* starts = tile.starts;
  __m512 sums[kP][kM];
  FOVEA_UNROLL
  for (auto& panel : sums) {
    FOVEA_UNROLL
    for (__m512& sum : panel) sum = _mm512_setzero_ps();
  }
  for (int64_t b = 0; b < tile.blocks; ++b) {
    __m512i block[kP][kM];
    FOVEA_UNROLL
    for (int i = 0; i < kM; ++i) {
      FOVEA_UNROLL
      for (int p = 0; p < kP; ++p) block[p][i] = _mm512_set1_epi32(starts[i]);
    }
    FOVEA_UNROLL
    for (int g = 0; g < 16; ++g) {
      __m512i weight[kP];
      FOVEA_UNROLL
      for (int p = 0; p < kP; ++p) {
        const uint8_t* at = weights + p * panel_bytes + g * 64;
        if (p >= kP - kAhead) __builtin_prefetch(at + kAhead * panel_bytes, 0, 2);
        weight[p] = _mm512_load_si512(at);
      }
      FOVEA_UNROLL
      for (int i = 0; i < kM; ++i) {
        int32_t four;
        __builtin_memcpy(&four, x + (g * kM + i) * 4, 4);
        const __m512i value = _mm512_set1_epi32(four);
        FOVEA_UNROLL
        for (int p = 0; p < kP; ++p)
          block[p][i] = _mm512_dpbusd_epi32(block[p][i], weight[p], value);
      }
    }
    FOVEA_UNROLL
    for (int p = 0; p < kP; ++p) {
      const __m512 w_scale = _mm512_castsi512_ps(_mm512_slli_epi32(
          _mm512_cvtepu16_epi32(_mm256_loadu_si256(
              reinterpret_cast<const __m256i*>(w_scales + p * panel_bytes + b * 32))),
          16));
      FOVEA_UNROLL
      for (int i = 0; i < kM; ++i)
        sums[p][i] = _mm512_fmadd_ps(
            _mm512_mul_ps(_mm512_cvtepi32_ps(block[p][i]), _mm512_set1_ps(x_scales[i])), w_scale,
            sums[p][i]);
    }
    weights += 1024;
    x += 64 * kM;
    x_scales += kM;
    starts += kM;
  }
  Tile part = tile;
  FOVEA_UNROLL
  for (int p = 0; p < kP; ++p) {
    store_avx512<kM>(sums[p], part);
    part.j += 16;
  }
}

// 16 registers do not hold the sums of all blocks too: those stay in memory.
template <int kM>
FOVEA_AVX2 FOVEA_INLINE void tile_avx2(const Tile& tile) {
  const uint8_t* weights = tile.weights;
  const auto* w_scales = reinterpret_cast<const __m128i*>(tile.w_scales);
  const int8_t* x = tile.x;
  const float* x_scales = tile.x_scales;
  const int32_t* starts = tile.starts;
  alignas(32) float sums[kM][16] = {};
  for (int64_t b = 0; b < tile.blocks; ++b) {
    __m256i low[kM];
    __m256i high[kM];
    FOVEA_UNROLL
    for (int i = 0; i < kM; ++i) low[i] = high[i] = _mm256_set1_epi32(starts[i]);
    for (int g = 0; g < 16; ++g) {
      const __m256i weight0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights) + 2 * g);
      const __m256i weight1 =
          _mm256_load_si256(reinterpret_cast<const __m256i*>(weights) + 2 * g + 1);
      FOVEA_UNROLL
      for (int i = 0; i < kM; ++i) {
        int32_t four;
        __builtin_memcpy(&four, x + (g * kM + i) * 4, 4);
        const __m256i value = _mm256_set1_epi32(four);
        low[i] = _mm256_dpbusd_avx_epi32(low[i], weight0, value);
        high[i] = _mm256_dpbusd_avx_epi32(high[i], weight1, value);
      }
    }
    const __m256 scale0 = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(w_scales + 2 * b)), 16));
    const __m256 scale1 = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(w_scales + 2 * b + 1)), 16));
    FOVEA_UNROLL
    for (int i = 0; i < kM; ++i) {
      const __m256 x_scale = _mm256_set1_ps(x_scales[i]);
      const __m256 sum0 = _mm256_mul_ps(_mm256_cvtepi32_ps(low[i]), x_scale);
      const __m256 sum1 = _mm256_mul_ps(_mm256_cvtepi32_ps(high[i]), x_scale);
      _mm256_store_ps(sums[i], _mm256_fmadd_ps(sum0, scale0, _mm256_load_ps(sums[i])));
      _mm256_store_ps(sums[i] + 8, _mm256_fmadd_ps(sum1, scale1, _mm256_load_ps(sums[i] + 8)));
    }
    weights += 1024;
    x += 64 * kM;
    x_scales += kM;
    starts += kM;
  }
  for (int i = 0; i < kM; ++i)
    store_outputs(sums[i], *tile.product, tile.i + i, tile.j, tile.columns);
}

template <int kM>
FOVEA_AVX2 void rows_avx2(int64_t rows, const Tile& tile) {
  if (rows == kM) return tile_avx2<kM>(tile);
  if constexpr (kM > 1) rows_avx2<kM - 1>(rows, tile);
}

Tile tile_at(const QuantisedInput& x, const Piece& piece, int64_t i, int64_t j) {
  const Matrix& matrix = *piece.product->weights;
  const Int8Layout layout(matrix.rows(), matrix.cols());
  const auto* panel =
      static_cast<const uint8_t*>(matrix.values()) + j / Int8Layout::kPanel * layout.panel_bytes;
  return {panel + layout.values_offset,
          panel,
          static_cast<const int8_t*>(x.values) + i * x.blocks * Int8Layout::kBlock,
          x.scales + i * x.blocks,
          x.starts + i * x.blocks,
          x.blocks,
          piece.product,
          x.first_row + i,
          j,
          std::min(Int8Layout::kPanel, piece.end - j)};
}

template <int kM>
FOVEA_AVX512 void rows_avx512(int64_t rows, const Tile& tile) {
  if (rows == kM) return tile_avx512<kM>(tile);
  if constexpr (kM > 1) rows_avx512<kM - 1>(rows, tile);
}

// As many outputs of the piece as fill streams, for `rows` rows of x from i on. Gives the first
// output that is left.
template <int kM>
FOVEA_AVX512 int64_t rows_of_streams_avx512(int64_t rows, const QuantisedInput& x, int64_t i,
                                            const Piece& piece) {
  if (rows == kM) {
    constexpr int kP = kM <= 6 ? kStreams : kStreams / 2;  // 24 of 32 registers hold sums
    const Matrix& matrix = *piece.product->weights;
    const int64_t panel_bytes = Int8Layout(matrix.rows(), matrix.cols()).panel_bytes;
    int64_t j = piece.begin;
    for (; j + kP * 16 <= piece.end; j += kP * 16)
      streams_avx512<kM, kP>(tile_at(x, piece, i, j), panel_bytes);
    return j;
  }
  if constexpr (kM > 1) return rows_of_streams_avx512<kM - 1>(rows, x, i, piece);
  return piece.begin;
}

}  // namespace

// A panel of x meets all panels of the piece while it is in the nearest cache. The first of them
// brings the weights from memory.
FOVEA_AVX512 void int8_piece_avx512_vnni(const QuantisedInput& x, const Piece& piece) {
  const Panels panels(x.m, x.tall);
  for (int64_t p = 0; p < panels.count; ++p) {
    int64_t j = piece.begin;
    if (p == 0) j = rows_of_streams_avx512<kAvx512VnniTall>(panels.rows(p), x, 0, piece);
    for (; j < piece.end; j += Int8Layout::kPanel)
      rows_avx512<kAvx512VnniTall>(panels.rows(p), tile_at(x, piece, panels.begin(p), j));
  }
}

void int8_piece_avx_vnni(const QuantisedInput& x, const Piece& piece) {
  const Panels panels(x.m, x.tall);
  for (int64_t p = 0; p < panels.count; ++p)
    for (int64_t j = piece.begin; j < piece.end; j += Int8Layout::kPanel)
      rows_avx2<kAvxVnniTall>(panels.rows(p), tile_at(x, piece, panels.begin(p), j));
}

}  // namespace fovea

#else

namespace fovea {

void int8_piece_avx512_vnni(const QuantisedInput&, const Piece&) {}
void int8_piece_avx_vnni(const QuantisedInput&, const Piece&) {}

}  // namespace fovea
#endif
