// SPDX-License-Identifier: Apache-2.0
// Many rows of x: blocks of x and of the weights are packed for the caches, then multiplied in
// tiles that stay in registers.
//
//   y[i][j] (+)= sum over a block of c of x[i][c] * W[j][c], block after block
//
// A thread owns kPieceRows outputs j at a time: for each block of kDepth columns it transposes the
// weights into panels [kDepth][kWide] (bf16 becomes f32 on the way), then goes over the panels of
// x, which the threads have packed as [kDepth][rows of the panel] before. A tile is up to kTall
// rows i by kWide outputs j; within a block each output is summed in f32 in the order of c, blocks
// are added to y in order, so neither tiles nor threads change a bit of the result.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul_gemm_cpu.cc"
#include "ops/matmul_gemm_cpu.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

#include "ops/matmul_pack_inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

// The sums of one tile over one block.
template <int kM>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                              int64_t depth, const TileTarget& to) {
  const DF df;
  VF low[kM];
  VF high[kM];
  FOVEA_UNROLL
  for (int i = 0; i < kM; ++i) {
    low[i] = hn::Zero(df);
    high[i] = hn::Zero(df);
    hwy::Prefetch(to.y + i * to.y_stride);
    hwy::Prefetch(to.y + i * to.y_stride + kWide - 1);
  }
  for (int64_t c = 0; c < depth; ++c) {
    const VF b0 = hn::Load(df, b);
    const VF b1 = hn::Load(df, b + kLanes);
    FOVEA_UNROLL
    for (int i = 0; i < kM; ++i) {
      const VF value = hn::Set(df, a[i]);
      low[i] = hn::MulAdd(value, b0, low[i]);
      high[i] = hn::MulAdd(value, b1, high[i]);
    }
    a += kM;
    b += kWide;
  }
  VF bias0 = hn::Zero(df);
  VF bias1 = hn::Zero(df);
  if (to.bias != nullptr) {
    bias0 = hn::LoadU(df, to.bias);
    bias1 = hn::LoadU(df, to.bias + kLanes);
  }
  FOVEA_UNROLL
  for (int i = 0; i < kM; ++i) {
    float* y = to.y + i * to.y_stride;
    VF sum0 = to.bias != nullptr ? hn::Add(low[i], bias0) : low[i];
    VF sum1 = to.bias != nullptr ? hn::Add(high[i], bias1) : high[i];
    if (to.accumulate) {
      sum0 = hn::Add(hn::LoadU(df, y), sum0);
      sum1 = hn::Add(hn::LoadU(df, y + kLanes), sum1);
    }
    hn::StoreU(sum0, df, y);
    hn::StoreU(sum1, df, y + kLanes);
  }
}

// A tile at the right edge, where less than a panel of outputs exists.
template <int kM>
HWY_NOINLINE void multiply_edge(const float* a, const float* b, int64_t depth,
                                const TileTarget& to) {
  float whole[kM * kWide];
  multiply_tile<kM>(a, b, depth, {whole, kWide, kWide, nullptr, false});
  for (int64_t i = 0; i < kM; ++i) {
    float* y = to.y + i * to.y_stride;
    for (int64_t j = 0; j < to.columns; ++j) {
      const float sum =
          to.bias != nullptr ? whole[i * kWide + j] + to.bias[j] : whole[i * kWide + j];
      y[j] = to.accumulate ? y[j] + sum : sum;
    }
  }
}

template <int kM>
void multiply_rows(int64_t rows, const float* a, const float* b, int64_t depth,
                   const TileTarget& to) {
  if (rows == kM)
    return to.columns == kWide ? multiply_tile<kM>(a, b, depth, to)
                               : multiply_edge<kM>(a, b, depth, to);
  if constexpr (kM > 1) multiply_rows<kM - 1>(rows, a, b, depth, to);
}

void gemm_pack_input(const Input& x, const GemmBlock& block, int64_t panel, float* packed) {
  const Panels panels(block.rows, kTall);
  const int64_t i = panels.begin(panel);
  const int64_t rows = panels.rows(panel);
  for (int64_t c = block.c_begin; c < block.c_end; c += kDepth) {
    const int64_t depth = std::min(kDepth, block.c_end - c);
    pack_input(x.values + (block.i_begin + i) * x.stride + c, x.stride, rows, depth,
               packed + (c - block.c_begin) * block.rows + i * depth);
  }
}

// Multiplies the block of x with the weights of a piece. `panel_memory` holds kPieceRows * kDepth.
template <class W>
void multiply_piece(const W* weights, const GemmBlock& block, const Piece& piece,
                    const float* packed, float* panel_memory) {
  const Product& product = *piece.product;
  const int64_t k = product.weights->cols();
  const int64_t stride = output_stride(product);
  const Panels panels(block.rows, kTall);
  for (int64_t c = block.c_begin; c < block.c_end; c += kDepth) {
    const int64_t depth = std::min(kDepth, block.c_end - c);
    for (int64_t j = piece.begin; j < piece.end; j += kWide)
      pack_weights(weights + j * k + c, k, std::min(kWide, piece.end - j), depth,
                   panel_memory + (j - piece.begin) * depth);
    for (int64_t p = 0; p < panels.count; ++p) {
      const int64_t i = panels.begin(p);
      const float* a = packed + (c - block.c_begin) * block.rows + i * depth;
      for (int64_t j = piece.begin; j < piece.end; j += kWide) {
        const TileTarget to{product.y + (block.i_begin + i) * stride + j, stride,
                            std::min(kWide, piece.end - j),
                            c == 0 && product.bias != nullptr ? product.bias + j : nullptr,
                            c > 0 || product.accumulate};
        multiply_rows<kTall>(panels.rows(p), a, panel_memory + (j - piece.begin) * depth, depth,
                             to);
      }
    }
  }
}

void gemm_piece(const GemmBlock& block, const Piece& piece, const float* packed,
                float* panel_memory) {
  const Matrix& matrix = *piece.product->weights;
  if (matrix.format() == WeightFormat::kBf16)
    multiply_piece(static_cast<const uint16_t*>(matrix.values()), block, piece, packed,
                   panel_memory);
  else
    multiply_piece(static_cast<const float*>(matrix.values()), block, piece, packed, panel_memory);
}

int64_t gemm_tall() { return kTall; }

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(gemm_pack_input);
HWY_EXPORT(gemm_piece);
HWY_EXPORT(gemm_tall);

// Of packed input, shared by the threads: 4 MiB.
constexpr int64_t kInputValues = 1 << 20;

PerThread<Buffer<float>> input_memory;
PerThread<Buffer<float>> panel_memory;

void multiply_block(Threads& threads, const Input& x, const GemmBlock& block,
                    std::span<const Product> products) {
  float* packed =
      scratch(input_memory, static_cast<size_t>(block.rows * (block.c_end - block.c_begin)));
  const Panels panels(block.rows, HWY_DYNAMIC_DISPATCH(gemm_tall)());
  const struct {
    const Input& x;
    const GemmBlock& block;
    float* packed;
  } loop{x, block, packed};
  threads.for_each(panels.count, 4, [&loop](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      HWY_DYNAMIC_DISPATCH(gemm_pack_input)(loop.x, loop.block, p, loop.packed);
  });
  for_each_piece(threads, products, kPieceRows, [&](const Piece& piece) {
    HWY_DYNAMIC_DISPATCH(gemm_piece)
    (block, piece, packed, scratch(panel_memory, static_cast<size_t>(kPieceRows * kDepth)));
  });
}

}  // namespace

void matmul_gemm(Threads& threads, const Input& x, std::span<const Product> products) {
  const int64_t rows_most = kInputValues / kDepth;
  for (int64_t i = 0; i < x.m; i += rows_most) {
    const int64_t rows = std::min(rows_most, x.m - i);
    const int64_t depth = kInputValues / rows / kDepth * kDepth;
    for (int64_t c = 0; c < x.k; c += depth)
      multiply_block(threads, x, {i, rows, c, std::min(c + depth, x.k)}, products);
  }
}

}  // namespace fovea
#endif
