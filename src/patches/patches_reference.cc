// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "patches/patches.h"

namespace fovea {

Patches sample_patches_reference(const Pyramid& pyramid, const Plan& plan, PatchFormat format) {
  Patches patches;
  patches.format = format;
  patches.count = plan.tokens() * kPatchesPerCell;
  const size_t values = static_cast<size_t>(patches.count) * kPatchValues;
  patches.f32 = Buffer<float>(format == PatchFormat::kFloat32 ? values : 0);
  patches.bf16 = Buffer<uint16_t>(format == PatchFormat::kBFloat16 ? values : 0);
  const float last_row = std::ceil(static_cast<float>(pyramid.canvas().height_px) / kPatchPx) - 1;
  const float last_col = std::ceil(static_cast<float>(pyramid.canvas().width_px) / kPatchPx) - 1;
  size_t at = 0;
  for (const Cell& cell : plan.cells) {
    const LevelView level = pyramid.level(cell.level);
    const auto span = static_cast<float>(1 << cell.level);
    for (int i = 0; i < kPatchesPerCell; ++i) {
      const int patch_row = cell.row * 2 + i / 2;
      const int patch_col = cell.col * 2 + i % 2;
      patches.places.push_back(
          {std::min(static_cast<float>(patch_row) * span + (span - 1) / 2, last_row),
           std::min(static_cast<float>(patch_col) * span + (span - 1) / 2, last_col), cell.level});
      for (int channel = 0; channel < 3; ++channel) {
        for (int frame = 0; frame < 2; ++frame) {
          for (int y = 0; y < kPatchPx; ++y) {
            for (int x = 0; x < kPatchPx; ++x) {
              const int row = std::min(patch_row * kPatchPx + y, level.size.height_px - 1);
              const int col = std::min(patch_col * kPatchPx + x, level.size.width_px - 1);
              const float value = normalised(level.row(row)[col * 3 + channel]);
              if (format == PatchFormat::kFloat32)
                patches.f32[at++] = value;
              else
                patches.bf16[at++] = to_bfloat16(value);
            }
          }
        }
      }
    }
  }
  return patches;
}

}  // namespace fovea
