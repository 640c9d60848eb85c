// SPDX-License-Identifier: Apache-2.0
// Times fitting an image to its canvas: rows alone, both passes, and a photograph of 12 megapixels.
#include <fmt/format.h>

#include <random>

#include "base/check.h"
#include "bench/bench.h"
#include "pyramid/canvas.h"
#include "pyramid/resize.h"

namespace fovea {
namespace {

void time_size(Bench& bench, Size size) {
  std::mt19937 random(5);
  Image image(size);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
  const Result<Size> canvas = canvas_size(size);
  FOVEA_CHECK(canvas);
  const bool verified =
      fit_canvas(bench.threads, image, *canvas).rgb == resize_bicubic_reference(image, *canvas).rgb;
  // The memory of the result is part of the work; that of the image is not.
  const double ms = Bench::median_ms([&] { (void)resize_bicubic(bench.threads, image, *canvas); });
  const double bytes = static_cast<double>(size.pixels() + canvas->pixels()) * 3;
  bench.add(verified, {.name = fmt::format("canvas/{}x{}->{}x{}", size.width_px, size.height_px,
                                           canvas->width_px, canvas->height_px),
                       .value = ms,
                       .unit = "ms",
                       .limit = {},
                       .note = fmt::format("{:.1f} GB/s", bytes / ms / 1e6)});
}

void run_canvas(Bench& bench) {
  for (const Size size : {Size{800, 600}, Size{1000, 1000}, Size{64, 64}, Size{4001, 3001}})
    time_size(bench, size);
}

const BenchRegistration kRegistration("front-end", "canvas", run_canvas);

}  // namespace
}  // namespace fovea
