// SPDX-License-Identifier: Apache-2.0
// int8 weights: x is rounded to int8 too, block by block, and products are summed as integers.
//
//   y[i][j] = sum over blocks b of x_scale[i][b] * w_scale[j][b] * sum over c in b of xq[i][c] *
//   wq[j][c]
//
// The form here sums pairs of products of 16 bits, which is what AVX-512 without VNNI, AVX2 and
// SSE4 have. A tile is up to kTall rows of x by a panel of 16 outputs (8 on SSE4), with sums in
// int32. A group of four columns is taken in two steps, its even and its odd columns: they are
// widened where they lie, with a mask and a shift, and x is laid out likewise.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul_int8_cpu.cc"
#include "ops/matmul_int8_cpu.h"

#include <cmath>
#include <cstring>

#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using DI = hn::ScalableTag<int32_t>;

constexpr int64_t kLanes = HWY_TARGET == HWY_SCALAR ? 1 : HWY_MAX_BYTES / 4;
constexpr int64_t kBlock = Int8Layout::kBlock;
constexpr int64_t kPanel = Int8Layout::kPanel;
constexpr int64_t kGroups = Int8Layout::kGroups;
// Sums, widened weights, a product and a value of x: 16 of 16 registers, 16 of 32.
constexpr int kVectors = HWY_MAX_BYTES >= 64 ? 1 : 2;
constexpr int kTall = HWY_MAX_BYTES >= 64 ? 12 : 5;

// One block of a row: values[64] = round(x / scale), with scale = the largest |x| / 127.
template <class T>
HWY_INLINE void quantise_block(const float* HWY_RESTRICT x, T* HWY_RESTRICT values, float& scale,
                               int32_t& start) {
  const DF df;
  const DI di;
  const hn::Rebind<T, DF> d_narrow;
  auto most = hn::Zero(df);
  for (int64_t c = 0; c < kBlock; c += kLanes) most = hn::Max(most, hn::Abs(hn::LoadU(df, x + c)));
  const float largest = hn::GetLane(hn::MaxOfLanes(df, most));
  // What is smaller than any sensible activation is nothing, and its inverse would be infinite.
  const auto inverse = hn::Set(df, largest > 1e-30F ? 127.0F / largest : 0.0F);
  auto sum = hn::Zero(di);
  for (int64_t c = 0; c < kBlock; c += kLanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(df, x + c), inverse));
    sum = hn::Add(sum, rounded);
    hn::StoreU(hn::DemoteTo(d_narrow, rounded), d_narrow, values + c);
  }
  scale = largest / 127.0F;
  start = -Int8Layout::kZero * hn::GetLane(hn::SumOfLanes(di, sum));
}

// Groups of four columns to their places, `rows` groups apart.
HWY_INLINE void spread_groups(const int8_t* HWY_RESTRICT block, int64_t rows,
                              int8_t* HWY_RESTRICT to) {
  for (int64_t g = 0; g < kGroups; ++g) std::memcpy(to + g * rows * 4, block + g * 4, 4);
}
// In the order of the steps below: columns 0 and 2, then 1 and 3.
HWY_INLINE void spread_groups(const int16_t* HWY_RESTRICT block, int64_t rows,
                              int16_t* HWY_RESTRICT to) {
  for (int64_t g = 0; g < kGroups; ++g, block += 4, to += rows * 4) {
    const int16_t steps[4] = {block[0], block[2], block[1], block[3]};
    std::memcpy(to, steps, sizeof steps);
  }
}

// Rows [begin, begin + rows) of x as one panel of a QuantisedInput.
template <class T>
void quantise_rows(const Input& x, int64_t begin, int64_t rows, T* values, float* scales,
                   int32_t* starts) {
  const int64_t blocks = (x.k + kBlock - 1) / kBlock;
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = x.values + (begin + i) * x.stride;
    for (int64_t b = 0; b < blocks; ++b) {
      float padded[kBlock] = {};
      const float* from = row + b * kBlock;
      if ((b + 1) * kBlock > x.k) {
        std::memcpy(padded, from, static_cast<size_t>(x.k - b * kBlock) * sizeof(float));
        from = padded;
      }
      T block[kBlock];
      quantise_block(from, block, scales[b * rows + i], starts[b * rows + i]);
      spread_groups(block, rows, values + (b * kGroups * rows + i) * 4);
    }
  }
}

void quantise_int8(const Input& x, int64_t begin, int64_t rows, void* values, float* scales,
                   int32_t* starts) {
  quantise_rows(x, begin, rows, static_cast<int8_t*>(values), scales, starts);
}
void quantise_int16(const Input& x, int64_t begin, int64_t rows, void* values, float* scales,
                    int32_t* starts) {
  quantise_rows(x, begin, rows, static_cast<int16_t*>(values), scales, starts);
}

// What a tile reads. Several panels lie panel_bytes apart.
struct Source {
  const uint8_t* panel;
  int64_t panel_bytes;
  int64_t values_offset;
  int64_t blocks;
  const int16_t* x;
  const float* x_scales;
  const int32_t* starts;
};

// Sums of kP panels' outputs over all blocks: sums[kM][kP][16].
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR

// sum[l] += a[2 l] * b[2 l] + a[2 l + 1] * b[2 l + 1]. Left to themselves, compilers multiply all
// pairs of a step before they add any, which takes more registers than there are; or copy sums.
template <class V16, class V32>
HWY_INLINE void add_pairs(V16 a, V16 b, V32& sum) {
#if HWY_TARGET <= HWY_AVX2
  V32 products;
  asm("vpmaddwd %[b], %[a], %[products]\n\tvpaddd %[products], %[sum], %[sum]"  // NOLINT
      : [sum] "+v"(sum.raw), [products] "=&v"(products.raw)
      : [a] "v"(a.raw), [b] "v"(b.raw));
#else
  V32 unused = sum;
  sum = hn::ReorderWidenMulAccumulate(DI(), a, b, sum, unused);
#if !defined(__clang__)
  asm volatile("" : "+x"(sum.raw));  // NOLINT
#endif
#endif
}

// Two values, for all lanes.
HWY_INLINE hn::Vec<hn::Repartition<int16_t, DI>> load_pair(const int16_t* from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof pair);
  return hn::BitCast(hn::Repartition<int16_t, DI>(), hn::Set(DI(), pair));
}

HWY_INLINE hn::Vec<DF> load_scales(const uint16_t* from) {
  const hn::RebindToUnsigned<DI> d;
  const hn::Rebind<uint16_t, DI> d_narrow;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(d_narrow, from))));
}

template <int kM, int kP>
HWY_INLINE void sum_panels(const Source& from, float* HWY_RESTRICT sums) {
  const DF df;
  const DI di;
  const hn::Repartition<int16_t, DI> d16;
  const hn::RebindToUnsigned<decltype(d16)> du16;
  const hn::Repartition<uint8_t, DI> d8;
  const auto low_byte = hn::Set(d16, 0xFF);
  constexpr int64_t kOutputs = kVectors * kLanes;  // a panel, or a part of one
  for (int64_t b = 0; b < from.blocks; ++b) {
    const float* HWY_RESTRICT x_scales = from.x_scales + b * kM;
    const int32_t* HWY_RESTRICT starts = from.starts + b * kM;
    for (int64_t j = 0; j < kPanel; j += kOutputs) {
      hn::Vec<DI> block[kM][kP * kVectors];
      FOVEA_UNROLL
      for (int i = 0; i < kM; ++i) {
        FOVEA_UNROLL
        for (int v = 0; v < kP * kVectors; ++v) block[i][v] = hn::Set(di, starts[i]);
      }
      const uint8_t* HWY_RESTRICT w =
          from.panel + from.values_offset + b * Int8Layout::kBlockBytes + j * 4;
      const int16_t* HWY_RESTRICT values = from.x + b * kBlock * kM;
      for (int64_t g = 0; g < kGroups; ++g) {
        FOVEA_UNROLL
        for (int p = 0; p < kP; ++p) {
          const uint8_t* at = w + p * from.panel_bytes;
          // Of one row, what half of the panels read next; of several, all of it.
          if ((kP == 1 || p >= kP / 2) && kP * kM > 1 && j == 0)
            __builtin_prefetch(at + (kP + 1) / 2 * from.panel_bytes, 0, 2);
          hn::Vec<decltype(d16)> even[kVectors];
          hn::Vec<decltype(d16)> odd[kVectors];
          FOVEA_UNROLL
          for (int v = 0; v < kVectors; ++v) {
            const auto bytes = hn::BitCast(d16, hn::LoadU(d8, at + v * kLanes * 4));
            even[v] = hn::And(bytes, low_byte);
            odd[v] = hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, bytes)));
          }
          FOVEA_UNROLL
          for (int i = 0; i < kM; ++i) {
            const auto x_even = load_pair(values + i * 4);
            FOVEA_UNROLL
            for (int v = 0; v < kVectors; ++v)
              add_pairs(even[v], x_even, block[i][p * kVectors + v]);
            const auto x_odd = load_pair(values + i * 4 + 2);
            FOVEA_UNROLL
            for (int v = 0; v < kVectors; ++v) add_pairs(odd[v], x_odd, block[i][p * kVectors + v]);
          }
        }
        w += kPanel * 4;
        values += kM * 4;
      }
      FOVEA_UNROLL
      for (int v = 0; v < kP * kVectors; ++v) {
        const int64_t p = v / kVectors;
        const int64_t at = j + v % kVectors * kLanes;
        const auto scale = load_scales(
            reinterpret_cast<const uint16_t*>(from.panel + p * from.panel_bytes) + b * kPanel + at);
        FOVEA_UNROLL
        for (int i = 0; i < kM; ++i) {
          const auto scaled = hn::Mul(hn::ConvertTo(df, block[i][v]), hn::Set(df, x_scales[i]));
          float* to = sums + (i * kP + p) * kPanel + at;
          hn::Store(hn::MulAdd(scaled, scale, hn::Load(df, to)), df, to);
        }
      }
    }
  }
}

#else

template <int kM, int kP>
void sum_panels(const Source& from, float* sums) {
  for (int64_t p = 0; p < kP; ++p) {
    const uint8_t* panel = from.panel + p * from.panel_bytes;
    const auto* scales = reinterpret_cast<const uint16_t*>(panel);
    for (int64_t b = 0; b < from.blocks; ++b) {
      const uint8_t* w = panel + from.values_offset + b * Int8Layout::kBlockBytes;
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kPanel; ++j) {
          int32_t sum = from.starts[b * kM + i];
          for (int64_t c = 0; c < kBlock; ++c)
            sum += w[Int8Layout::value_offset(j, c)] *
                   from.x[((b * kGroups + c / 4) * kM + i) * 4 + c % 2 * 2 + c % 4 / 2];
          const float scaled = static_cast<float>(sum) * from.x_scales[b * kM + i];
          float& to = sums[(i * kP + p) * kPanel + j];
          to = std::fma(scaled, widen_bf16(scales[b * kPanel + j]), to);
        }
      }
    }
  }
}

#endif

// Outputs from j on, of kP panels, and kM rows of x from i on.
template <int kM, int kP>
void multiply_panels(const QuantisedInput& x, int64_t i, const Piece& piece, int64_t j) {
  const Matrix& matrix = *piece.product->weights;
  const Int8Layout layout(matrix.rows(), matrix.cols());
  const auto* weights = static_cast<const uint8_t*>(matrix.values());
  HWY_ALIGN float sums[kM * kP * kPanel] = {};
  sum_panels<kM, kP>(
      {weights + j / kPanel * layout.panel_bytes, layout.panel_bytes, layout.values_offset,
       x.blocks, static_cast<const int16_t*>(x.values) + i * x.blocks * kBlock,
       x.scales + i * x.blocks, x.starts + i * x.blocks},
      sums);
  for (int64_t r = 0; r < kM; ++r)
    store_outputs(sums + r * kP * kPanel, *piece.product, x.first_row + i + r, j,
                  std::min(kP * kPanel, piece.end - j));
}

template <int kM>
void panel_rows(int64_t rows, const QuantisedInput& x, int64_t i, const Piece& piece, int64_t j) {
  if (rows == kM) return multiply_panels<kM, 1>(x, i, piece, j);
  if constexpr (kM > 1) panel_rows<kM - 1>(rows, x, i, piece, j);
}

void int8_piece(const QuantisedInput& x, const Piece& piece) {
  const Panels panels(x.m, x.tall);
  for (int64_t p = 0; p < panels.count; ++p) {
    int64_t j = piece.begin;
    if (x.m == 1)
      for (; j + kStreams * kPanel <= piece.end; j += kStreams * kPanel)
        multiply_panels<1, kStreams>(x, 0, piece, j);
    for (; j < piece.end; j += kPanel)
      panel_rows<kTall>(panels.rows(p), x, panels.begin(p), piece, j);
  }
}

int64_t int8_tall() { return kTall; }
int64_t int8_target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(quantise_int8);
HWY_EXPORT(quantise_int16);
HWY_EXPORT(int8_piece);
HWY_EXPORT(int8_tall);
HWY_EXPORT(int8_target);

int64_t highway_target() { return HWY_DYNAMIC_DISPATCH(int8_target)(); }

namespace {

constexpr int64_t kInputBytes = 4 << 20;    // of quantised input, shared by the threads
constexpr int64_t kPieceBytes = 128 << 10;  // of weights: what a thread takes at a time

PerThread<Buffer<std::byte>> value_memory;
PerThread<Buffer<float>> scale_memory;
PerThread<Buffer<int32_t>> start_memory;

struct Quantiser {
  const Input& x;
  Panels panels;
  int64_t blocks;
  int64_t value_bytes;
  std::byte* values;
  float* scales;
  int32_t* starts;

  void run(int64_t panel) const {
    const int64_t i = panels.begin(panel);
    std::byte* to = values + i * blocks * Int8Layout::kBlock * value_bytes;
    if (value_bytes == 1) HWY_DYNAMIC_DISPATCH(quantise_int8)
    (x, i, panels.rows(panel), to, scales + i * blocks, starts + i * blocks);
    else HWY_DYNAMIC_DISPATCH(quantise_int16)(x, i, panels.rows(panel), to, scales + i * blocks,
                                              starts + i * blocks);
  }
};

// Rows of x that start at row `first_row` of all of it.
void multiply(Threads& threads, const Input& x, int64_t first_row,
              std::span<const Product> products, Int8Form form, int64_t tall) {
  const int64_t blocks = (x.k + Int8Layout::kBlock - 1) / Int8Layout::kBlock;
  const auto rows = static_cast<size_t>(x.m * blocks);
  const int64_t value_bytes = form == Int8Form::kHighway ? 2 : 1;
  const Quantiser quantiser{
      x,
      Panels(x.m, tall),
      blocks,
      value_bytes,
      scratch(value_memory, rows * Int8Layout::kBlock * static_cast<size_t>(value_bytes)),
      scratch(scale_memory, rows),
      scratch(start_memory, rows)};
  threads.for_each(quantiser.panels.count, 1, [&quantiser](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) quantiser.run(p);
  });
  const QuantisedInput input{first_row,       x.m, blocks, tall, quantiser.values, quantiser.scales,
                             quantiser.starts};
  const int64_t piece_rows = std::max<int64_t>(1, kPieceBytes / (blocks * 64) / 64) * 64;
  for_each_piece(threads, products, piece_rows, [&](const Piece& piece) {
    if (form == Int8Form::kAvx512Vnni)
      int8_piece_avx512_vnni(input, piece);
    else if (form == Int8Form::kAvxVnni)
      int8_piece_avx_vnni(input, piece);
    else
      HWY_DYNAMIC_DISPATCH(int8_piece)(input, piece);
  });
}

}  // namespace

void matmul_int8(Threads& threads, const Input& x, std::span<const Product> products) {
  const Int8Form form = int8_form();
  const int64_t tall = form == Int8Form::kAvx512Vnni ? kAvx512VnniTall
                       : form == Int8Form::kAvxVnni  ? kAvxVnniTall
                                                     : HWY_DYNAMIC_DISPATCH(int8_tall)();
  const int64_t most = std::max(tall, kInputBytes / (x.k + 2) / (tall * 2) * tall);
  for (int64_t i = 0; i < x.m; i += most) {
    const Input part{x.values + i * x.stride, x.stride, std::min(most, x.m - i), x.k};
    multiply(threads, part, i, products, form, tall);
  }
}

}  // namespace fovea
#endif
