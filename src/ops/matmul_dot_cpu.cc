// SPDX-License-Identifier: Apache-2.0
// Few rows of x: each output is a dot product, taken on the weights where they lie.
//
//   y[i][j] = sum over c of x[i][c] * W[j][c]
//
// A tile is kRows outputs j by up to kInputs rows i, each with one vector of partial sums: lane l
// sums c = l, l + lanes, ... The outputs of a tile lie a part of the piece apart, so that a thread
// reads kRows long streams at once: with neighbouring rows the streams end with every row, before
// the CPU has begun to fetch ahead (98 instead of 79 % of the speed of plain reading). Where x has
// several rows, computing takes as long as reading: the weights of the next outputs are asked for
// meanwhile. The lanes are added at the end, always in the same order, so a row of y does not
// depend on the other rows of x. Accumulation is f32; bf16 weights are widened exactly, so that
// they give the bits that the same values in f32 give.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul_dot_cpu.cc"
#include <cstring>

#include "ops/matmul_cpu.h"

#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

constexpr int64_t kLanes = HWY_TARGET == HWY_SCALAR ? 1 : HWY_MAX_BYTES / 4;
constexpr int kRows = 4;
// 4 x 6 sums, 6 inputs and a weight fit 32 registers; 4 x 3 and so on fit 16.
constexpr int kInputs = HWY_MAX_BYTES >= 64 ? 6 : 3;

HWY_INLINE VF load_weights(const float* from) { return hn::LoadU(DF(), from); }
HWY_INLINE VF load_weights(const uint16_t* from) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::RebindToUnsigned<DF> d32;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

// The sums of the lanes of four vectors.
HWY_INLINE void sum_lanes(VF a, VF b, VF c, VF d, float* sums) {
  const DF df;
#if HWY_TARGET == HWY_SCALAR
  hn::StoreU(a, df, sums);
  hn::StoreU(b, df, sums + 1);
  hn::StoreU(c, df, sums + 2);
  hn::StoreU(d, df, sums + 3);
#else
  const hn::Full128<float> d4;
  const hn::RepartitionToWide<DF> d64;
  const auto ab = hn::Add(hn::InterleaveLower(df, a, b), hn::InterleaveUpper(df, a, b));
  const auto cd = hn::Add(hn::InterleaveLower(df, c, d), hn::InterleaveUpper(df, c, d));
  const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, ab), hn::BitCast(d64, cd));
  const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, ab), hn::BitCast(d64, cd));
  const auto blocks = hn::Add(hn::BitCast(df, low), hn::BitCast(df, high));
#if HWY_MAX_BYTES == 16
  hn::StoreU(blocks, d4, sums);
#elif HWY_MAX_BYTES == 32
  hn::StoreU(hn::Add(hn::LowerHalf(d4, blocks), hn::UpperHalf(d4, blocks)), d4, sums);
#else
  const hn::Half<DF> d8;
  const auto half = hn::Add(hn::LowerHalf(d8, blocks), hn::UpperHalf(d8, blocks));
  hn::StoreU(hn::Add(hn::LowerHalf(d4, half), hn::UpperHalf(d4, half)), d4, sums);
#endif
#endif
}

template <class W>
struct Dot {
  const W* weights;  // [n][k]
  int64_t n;
  Input x;
  const float* x_tail;  // [m][lanes]: what is left of each row after whole vectors, then zeros
  const float* bias;
  float* y;
  int64_t y_stride;
  bool accumulate;
};

// The rows of x of one tile, one of `count` panels that share the fetching of weights.
struct DotPanel {
  int64_t begin;
  int64_t rows;
  int64_t index;
  int64_t count;
};

// y[panel's rows] [j + r * step], as far as that is below `end`.
template <int kM, class W>
HWY_INLINE void dot_tile(const Dot<W>& dot, const DotPanel& panel, int64_t j, int64_t step,
                         int64_t end) {
  const int64_t row_i = panel.begin;
  const DF df;
  const int64_t k = dot.x.k;
  const W* HWY_RESTRICT w[kRows];
  FOVEA_UNROLL
  for (int r = 0; r < kRows; ++r) w[r] = dot.weights + std::min(j + r * step, end - 1) * k;
  const float* HWY_RESTRICT x = dot.x.values + row_i * dot.x.stride;
  const int64_t stride = dot.x.stride;
  VF sums[kRows][kM];
  for (auto& row : sums)
    for (VF& sum : row) sum = hn::Zero(df);
  // Each panel asks for its share of the next row of each stream, evenly over its columns: a line
  // several times, which costs less than a branch.
  const char* next[kRows];
  FOVEA_UNROLL
  for (int r = 0; r < kRows; ++r)
    next[r] = reinterpret_cast<const char*>(w[r] + k + panel.index * k / panel.count);
  const int64_t share = kLanes * static_cast<int64_t>(sizeof(W)) / panel.count;
  int64_t ahead = 0;
  int64_t c = 0;
  for (; c + kLanes <= k; c += kLanes, ahead += share) {
    if (kM > 1) {
      FOVEA_UNROLL
      for (const char* row : next) __builtin_prefetch(row + ahead, 0, 2);
    }
    VF input[kM];
    FOVEA_UNROLL
    for (int i = 0; i < kM; ++i) input[i] = hn::LoadU(df, x + i * stride + c);
    FOVEA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF weight = load_weights(w[r] + c);
      FOVEA_UNROLL
      for (int i = 0; i < kM; ++i) sums[r][i] = hn::MulAdd(weight, input[i], sums[r][i]);
    }
  }
  if (c < k) {
    FOVEA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      W rest[kLanes] = {};
      std::memcpy(rest, w[r] + c, static_cast<size_t>(k - c) * sizeof(W));
      const VF weight = load_weights(rest);
      FOVEA_UNROLL
      for (int i = 0; i < kM; ++i)
        sums[r][i] =
            hn::MulAdd(weight, hn::LoadU(df, dot.x_tail + (row_i + i) * kLanes), sums[r][i]);
    }
  }
  FOVEA_UNROLL
  for (int i = 0; i < kM; ++i) {
    float four[4];
    sum_lanes(sums[0][i], sums[1][i], sums[2][i], sums[3][i], four);
    float* y = dot.y + (row_i + i) * dot.y_stride;
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = j + r * step;
      if (row >= end) break;
      const float sum = dot.bias != nullptr ? four[r] + dot.bias[row] : four[r];
      y[row] = dot.accumulate ? y[row] + sum : sum;
    }
  }
}

template <int kM, class W>
HWY_INLINE bool try_tile(const Dot<W>& dot, const DotPanel& panel, int64_t j, int64_t step,
                         int64_t end) {
  if constexpr (kM <= kInputs) {
    if (panel.rows != kM) return false;
    dot_tile<kM>(dot, panel, j, step, end);
    return true;
  }
  return false;
}

template <class W>
void dot_rows(const Dot<W>& dot, int64_t begin, int64_t end) {
  const Panels panels(dot.x.m, kInputs);
  const int64_t step = (end - begin + kRows - 1) / kRows;
  for (int64_t j = begin; j < begin + step; ++j) {
    for (int64_t p = 0; p < panels.count; ++p) {
      const DotPanel panel{panels.begin(p), panels.rows(p), p, panels.count};
      (void)(try_tile<1>(dot, panel, j, step, end) || try_tile<2>(dot, panel, j, step, end) ||
             try_tile<3>(dot, panel, j, step, end) || try_tile<4>(dot, panel, j, step, end) ||
             try_tile<5>(dot, panel, j, step, end) || try_tile<6>(dot, panel, j, step, end));
    }
  }
}

void dot_piece(const Input& x, const float* x_tail, const Piece& piece) {
  const Product& product = *piece.product;
  const Matrix& matrix = *product.weights;
  const auto run = [&](const auto* weights) {
    dot_rows(Dot<std::decay_t<decltype(*weights)>>{weights, matrix.rows(), x, x_tail, product.bias,
                                                   product.y, output_stride(product),
                                                   product.accumulate},
             piece.begin, piece.end);
  };
  if (matrix.format() == WeightFormat::kBf16)
    run(static_cast<const uint16_t*>(matrix.values()));
  else
    run(static_cast<const float*>(matrix.values()));
}

int64_t dot_lanes() { return kLanes; }

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(dot_piece);
HWY_EXPORT(dot_lanes);

// Large enough to take a few microseconds, small enough to share out evenly.
constexpr int64_t kPieceValues = 1 << 16;

PerThread<Buffer<float>> tail_memory;

// The values of each row behind its last whole vector, with zeros up to a vector.
const float* gather_tails(const Input& x, int64_t lanes) {
  const int64_t whole = x.k / lanes * lanes;
  if (whole == x.k) return nullptr;
  float* tails = scratch(tail_memory, static_cast<size_t>(x.m * lanes));
  for (int64_t i = 0; i < x.m; ++i)
    for (int64_t l = 0; l < lanes; ++l)
      tails[i * lanes + l] = whole + l < x.k ? x.values[i * x.stride + whole + l] : 0.0F;
  return tails;
}

}  // namespace

void matmul_dot(Threads& threads, const Input& x, std::span<const Product> products) {
  const float* tails = gather_tails(x, HWY_DYNAMIC_DISPATCH(dot_lanes)());
  const int64_t rows = std::max<int64_t>(16, kPieceValues / x.k / 16 * 16);
  for_each_piece(threads, products, rows, [&](const Piece& piece) {
    HWY_DYNAMIC_DISPATCH(dot_piece)(x, tails, piece);
  });
}

}  // namespace fovea
#endif
