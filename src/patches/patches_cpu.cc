// SPDX-License-Identifier: Apache-2.0
// Cuts cells into patches. A row of a patch is 16 pixels: 48 bytes become three vectors of 16
// values, each written to both frames.
#include <algorithm>
#include <cstring>

#include "patches/patches.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "patches/patches_cpu.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef FOVEA_PATCHES_CPU_ONCE
#define FOVEA_PATCHES_CPU_ONCE
namespace fovea {
namespace {

constexpr int kFrameValues = kPatchPx * kPatchPx;
constexpr int64_t kCellValues = int64_t{kPatchesPerCell} * kPatchValues;

// 32x32 pixels, rows `stride_bytes` apart.
struct CellPixels {
  const uint8_t* rgb = nullptr;
  int64_t stride_bytes = 0;
};

// (value / 255 - 0.5) / 0.5 is value / 127.5 - 1, each step rounded, and the quotient needs no
// division: a value has 8 bits and the high part of the reciprocal 15, so their product is exact,
// and the sum with the product of the low part is rounded once. n/255 is never so close to the
// middle of two floats that the low part's own rounding counts.
constexpr float kReciprocalHigh = 16448.0f / (1 << 21);
constexpr float kReciprocalLow = static_cast<float>(1.0 / 127.5 - 16448.0 / (1 << 21));

}  // namespace
}  // namespace fovea
#endif  // FOVEA_PATCHES_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

inline void Store(float value, float* out) { *out = value; }
inline void Store(float value, uint16_t* out) { *out = to_bfloat16(value); }

template <bool kStream, class T>
void SamplePatch(const CellPixels& pixels, T* out) {
  for (int y = 0; y < kPatchPx; ++y) {
    for (int x = 0; x < kPatchPx; ++x) {
      for (int c = 0; c < 3; ++c) {
        T* value = out + 2 * c * kFrameValues + y * kPatchPx + x;
        Store(normalised(pixels.rgb[y * pixels.stride_bytes + x * 3 + c]), value);
        value[kFrameValues] = *value;
      }
    }
  }
}

#else

template <class V8>
HWY_INLINE auto Normalise(hn::CappedTag<float, kPatchPx> d, V8 bytes) {
  const auto value = hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<decltype(d)>(), bytes));
  const auto quotient =
      hn::MulAdd(value, hn::Set(d, kReciprocalHigh), hn::Mul(value, hn::Set(d, kReciprocalLow)));
  return hn::Sub(quotient, hn::Set(d, 1.0f));
}

// Into both frames; a streaming store writes no less than 16 bytes.
template <bool kStream, class D, class V, class T>
HWY_INLINE void StoreTwice(D d, V values, T* HWY_RESTRICT out) {
  if constexpr (kStream && hn::MaxLanes(D()) * sizeof(T) >= 16) {
    hn::Stream(values, d, out);
    hn::Stream(values, d, out + kFrameValues);
  } else {
    hn::Store(values, d, out);
    hn::Store(values, d, out + kFrameValues);
  }
}

// 16 bytes of one channel -> 16 values in each of two frames.
template <bool kStream>
HWY_INLINE void StoreRow(const uint8_t* HWY_RESTRICT bytes, float* HWY_RESTRICT out) {
  const hn::CappedTag<float, kPatchPx> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  for (size_t i = 0; i < kPatchPx; i += hn::Lanes(d))
    StoreTwice<kStream>(d, Normalise(d, hn::LoadU(d8, bytes + i)), out + i);
}

template <bool kStream>
HWY_INLINE void StoreRow(const uint8_t* HWY_RESTRICT bytes, uint16_t* HWY_RESTRICT out) {
  const hn::CappedTag<float, kPatchPx> d;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::RebindToUnsigned<decltype(d)> du32;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  for (size_t i = 0; i < kPatchPx; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(du32, Normalise(d, hn::LoadU(d8, bytes + i)));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, odd), hn::Set(du32, 0x7FFF)));
    StoreTwice<kStream>(d16, hn::DemoteTo(d16, hn::BitCast(d32, rounded)), out + i);
  }
}

template <bool kStream, class T>
void SamplePatch(const CellPixels& pixels, T* HWY_RESTRICT out) {
  const hn::Full128<uint8_t> d8;
  for (int y = 0; y < kPatchPx; ++y) {
    hn::Vec<decltype(d8)> red, green, blue;
    hn::LoadInterleaved3(d8, pixels.rgb + y * pixels.stride_bytes, red, green, blue);
    alignas(16) uint8_t channels[3][kPatchPx];
    hn::Store(red, d8, channels[0]);
    hn::Store(green, d8, channels[1]);
    hn::Store(blue, d8, channels[2]);
    for (int c = 0; c < 3; ++c)
      StoreRow<kStream>(channels[c], out + 2 * c * kFrameValues + y * kPatchPx);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

// A cell that hangs over the edge is gathered into `tile` first, its last pixels repeated.
CellPixels FindPixels(const LevelView& level, const Cell& cell, uint8_t* tile) {
  const int x = cell.col * kCellPx;
  const int y = cell.row * kCellPx;
  const int width = std::min(kCellPx, level.size.width_px - x);
  const int height = std::min(kCellPx, level.size.height_px - y);
  if (width == kCellPx && height == kCellPx)
    return {level.row(y) + int64_t{x} * 3, level.stride_bytes};
  for (int row = 0; row < kCellPx; ++row) {
    uint8_t* out = tile + row * kCellPx * 3;
    std::memcpy(out, level.row(y + std::min(row, height - 1)) + int64_t{x} * 3,
                static_cast<size_t>(width) * 3);
    for (int b = width * 3; b < kCellPx * 3; ++b) out[b] = out[b - 3];
  }
  return {tile, kCellPx * 3};
}

template <bool kStream, class T>
void SampleCells(const Pyramid& pyramid, const Cell* cells, int64_t count, T* out) {
  uint8_t tile[kCellPx * kCellPx * 3];
  for (int64_t i = 0; i < count; ++i) {
    const CellPixels pixels = FindPixels(pyramid.level(cells[i].level), cells[i], tile);
    for (int patch = 0; patch < kPatchesPerCell; ++patch, out += kPatchValues)
      SamplePatch<kStream>(
          {pixels.rgb + patch / 2 * kPatchPx * pixels.stride_bytes + patch % 2 * kPatchPx * 3,
           pixels.stride_bytes},
          out);
  }
  if (kStream) hwy::FlushStream();
}

template <class T>
void SampleCells(const Pyramid& pyramid, const Cell* cells, int64_t count, T* out, bool stream) {
  if (stream)
    SampleCells<true>(pyramid, cells, count, out);
  else
    SampleCells<false>(pyramid, cells, count, out);
}

void SampleFloat32(const Pyramid& pyramid, const Cell* cells, int64_t count, float* out,
                   bool stream) {
  SampleCells(pyramid, cells, count, out, stream);
}

void SampleBFloat16(const Pyramid& pyramid, const Cell* cells, int64_t count, uint16_t* out,
                    bool stream) {
  SampleCells(pyramid, cells, count, out, stream);
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::detail {
namespace {

HWY_EXPORT(SampleFloat32);
HWY_EXPORT(SampleBFloat16);

constexpr int64_t kChunkCells = 4;
// More than stays in a cache until it is read again: written past it, 1,024 cells take a third of
// the time, since no line is read before it is overwritten.
constexpr size_t kStreamBytes = size_t{8} << 20;

}  // namespace

void sample_patches_cpu(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                        Patches& patches) {
  const bool stream = patches.bytes() >= kStreamBytes;
  threads.for_each(plan.tokens(), kChunkCells, [&](int64_t begin, int64_t end) {
    const Cell* cells = plan.cells.data() + begin;
    const int64_t at = begin * kCellValues;
    if (patches.format == PatchFormat::kFloat32) {
      const auto sample = HWY_DYNAMIC_DISPATCH(SampleFloat32);
      sample(pyramid, cells, end - begin, patches.f32.data() + at, stream);
    } else {
      const auto sample = HWY_DYNAMIC_DISPATCH(SampleBFloat16);
      sample(pyramid, cells, end - begin, patches.bf16.data() + at, stream);
    }
  });
}

}  // namespace fovea::detail
#endif  // HWY_ONCE
