// SPDX-License-Identifier: Apache-2.0
#include "patches/patches.h"

#include "base/check.h"

namespace fovea {
namespace {

void check_cell(const Cell& cell, const Pyramid& pyramid) {
  FOVEA_CHECK(cell.level >= 0 && cell.level < pyramid.levels());
  const Grid grid = grid_at(pyramid.canvas(), cell.level);
  FOVEA_CHECK(cell.row >= 0 && cell.row < grid.rows && cell.col >= 0 && cell.col < grid.cols);
}

}  // namespace

Patches sample_patches(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                       PatchFormat format) {
  Patches patches;
  patches.format = format;
  patches.count = plan.tokens() * kPatchesPerCell;
  const size_t values = static_cast<size_t>(patches.count) * kPatchValues;
  if (format == PatchFormat::kFloat32)
    patches.f32 = Buffer<float>(values);
  else
    patches.bf16 = Buffer<uint16_t>(values);

  const Size canvas = pyramid.canvas();
  const int rows = (canvas.height_px + kPatchPx - 1) / kPatchPx;
  const int cols = (canvas.width_px + kPatchPx - 1) / kPatchPx;
  patches.places.reserve(static_cast<size_t>(patches.count));
  for (const Cell& cell : plan.cells) {
    check_cell(cell, pyramid);
    for (int i = 0; i < kPatchesPerCell; ++i)
      patches.places.push_back({place_at(cell.row * 2 + i / 2, cell.level, rows),
                                place_at(cell.col * 2 + i % 2, cell.level, cols), cell.level});
  }
  detail::sample_patches_cpu(threads, pyramid, plan, patches);
  return patches;
}

}  // namespace fovea
