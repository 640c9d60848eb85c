// SPDX-License-Identifier: Apache-2.0
// Times sampling the patches of a 1024x1024 canvas: all of it, and a glance with a look of 68
// tokens.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "bench/bench.h"
#include "patches/patches.h"

namespace fovea {
namespace {

constexpr Size kCanvas{1024, 1024};

void add_level(Plan& plan, int level) {
  const Grid grid = grid_at(kCanvas, level);
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) plan.cells.push_back({level, row, col});
}

void time_plan(Bench& bench, const Pyramid& pyramid, const Plan& plan, PatchFormat format,
               const char* name) {
  const auto equal = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  const Patches expected = sample_patches_reference(pyramid, plan, format);
  bool verified = false;
  double bytes = 0;
  {
    const Patches got = sample_patches(bench.threads, pyramid, plan, format);
    verified = equal(got.f32, expected.f32) && equal(got.bf16, expected.bf16) &&
               got.places == expected.places;
    // Every pixel is read once and written to two frames.
    bytes = static_cast<double>(got.bytes()) + plan.tokens() * double{kCellPx * kCellPx * 3};
  }
  const double ms =
      Bench::median_ms([&] { (void)sample_patches(bench.threads, pyramid, plan, format); });
  bench.add(verified,
            {.name = fmt::format("patches/{}x{}/{}/{}", kCanvas.width_px, kCanvas.height_px, name,
                                 format == PatchFormat::kFloat32 ? "f32" : "bf16"),
             .value = ms,
             .unit = "ms",
             .limit = {},  // much of it stays in the caches
             .note = fmt::format("{} tokens, {:.1f} GB/s", plan.tokens(), bytes / ms / 1e6)});
}

void run_patches(Bench& bench) {
  std::mt19937 random(6);
  Image image(kCanvas);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
  const Pyramid pyramid = build_pyramid(bench.threads, std::move(image));
  Plan uniform;
  add_level(uniform, 0);
  Plan glance_and_look;
  add_level(glance_and_look, 2);
  for (int i = 0; i < 4; ++i) glance_and_look.cells.push_back({0, 7 + i / 2, 20 + i % 2});
  for (const PatchFormat format : {PatchFormat::kFloat32, PatchFormat::kBFloat16}) {
    time_plan(bench, pyramid, uniform, format, "uniform");
    time_plan(bench, pyramid, glance_and_look, format, "68-tokens");
  }
}

const BenchRegistration kRegistration("front-end", "patches", run_patches);

}  // namespace
}  // namespace fovea
