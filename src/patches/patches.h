// SPDX-License-Identifier: Apache-2.0
// patches: Pyramid + Plan -> Patches, in Qwen3-VL's layout.
#pragma once

#include <cstdint>
#include <vector>

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
};

struct Patches {
  PatchFormat format = PatchFormat::kFloat32;
  int count = 0;                   // 4 x the plan's tokens, in the plan's order
  std::vector<float> f32;          // [count][kPatchValues], empty for bf16
  std::vector<uint16_t> bf16;      // [count][kPatchValues], empty for f32
  std::vector<PatchPlace> places;  // [count]

  size_t bytes() const { return f32.size() * sizeof(float) + bf16.size() * sizeof(uint16_t); }
};

Patches sample_patches(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                       PatchFormat format = PatchFormat::kFloat32);

}  // namespace fovea
