// SPDX-License-Identifier: Apache-2.0
// patches: Pyramid + Plan -> Patches, in Qwen3-VL's layout.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

// Values of one patch: [channel 3][frame 2][16 rows][16 columns]; a still image fills both frames.
inline constexpr int kPatchValues = 3 * 2 * kPatchPx * kPatchPx;
inline constexpr int kPatchesPerCell = 4;  // (0,0) (0,1) (1,0) (1,1)

enum class PatchFormat { kFloat32, kBFloat16 };

// Where a patch sits, in level-0 patch units: p * 2^l + (2^l - 1) / 2 for patch p of level l,
// clamped to the canvas where a cell hangs over its edge.
struct PatchPlace {
  float row = 0;
  float col = 0;
  int level = 0;

  friend bool operator==(const PatchPlace&, const PatchPlace&) = default;
};

struct Patches {
  PatchFormat format = PatchFormat::kFloat32;
  int count = 0;                   // 4 x the plan's tokens, in the plan's order
  Buffer<float> f32;               // [count][kPatchValues], empty for bf16
  Buffer<uint16_t> bf16;           // [count][kPatchValues], empty for f32
  std::vector<PatchPlace> places;  // [count]

  size_t bytes() const { return f32.size() * sizeof(float) + bf16.size() * sizeof(uint16_t); }
};

// What the tower reads for an 8-bit value: (value / 255 - 0.5) / 0.5, in float32 as transformers'
// processor computes it with its PIL backend: each step is rounded.
inline float normalised(uint8_t value) {
  return (static_cast<float>(value) / 255.0f - 0.5f) / 0.5f;
}

// Rounds to nearest, halves to even; for finite values.
inline uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// The centre of the index-th patch (or cell) of a level, in level-0 patches (or cells), of which
// the canvas has `extent` in that direction.
inline float place_at(int index, int level, int extent) {
  const auto span = static_cast<float>(1 << level);
  return std::min(static_cast<float>(index) * span + (span - 1) / 2,
                  static_cast<float>(extent - 1));
}

// The plan's cells must lie on the pyramid's grids. Pixels beyond a level's edge repeat the last.
Patches sample_patches(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                       PatchFormat format = PatchFormat::kFloat32);

// The specification.
Patches sample_patches_reference(const Pyramid& pyramid, const Plan& plan, PatchFormat format);

namespace detail {

// Fills the values of `patches`, whose memory is there.
void sample_patches_cpu(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                        Patches& patches);

}  // namespace detail
}  // namespace fovea
