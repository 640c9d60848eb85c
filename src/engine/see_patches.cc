// SPDX-License-Identifier: Apache-2.0
#include "engine/see_patches.h"

#include <memory>
#include <utility>

#include "base/out_of_memory.h"
#include "base/stopwatch.h"
#include "base/threads.h"
#include "engine/front_end.h"
#include "engine/given_plan.h"
#include "engine/see_parts.h"
#include "gaze/gaze.h"
#include "pyramid/canvas.h"
#include "pyramid/pyramid.h"

namespace fovea {
namespace {

// A plan that needs no look at the pixels: one that was given, or every cell of level 0.
bool is_blind(const SeeSettings& settings, const GivenPlan* given) {
  return given != nullptr || (settings.maker == MakerKind::kUniform && budget_of(settings) == 0);
}

Result<SeenPatches> sample_blind(Threads& threads, Image image, const SeeSettings& settings,
                                 const GivenPlan* given, bool sample) {
  SeenPatches seen;
  seen.image = image.size;
  const auto canvas = canvas_size(image.size, canvas_limits_of(settings));
  if (!canvas) return canvas.error();
  seen.canvas = *canvas;
  auto plan = given != nullptr ? settle_plan(*given, *canvas, settings.options.budget_tokens)
                               : make_plan(settings.maker, {.canvas = *canvas, .budget_tokens = 0});
  if (!plan) return plan.error();
  seen.plan = std::move(*plan);
  if (!sample) return seen;
  // The coarsest cells come first, and nothing coarser is read.
  const int levels = seen.plan.cells.front().level + 1;
  Image fitted = fit_canvas(threads, std::move(image), *canvas);
  seen.patches =
      sample_patches(threads, build_pyramid(threads, std::move(fitted), levels), seen.plan);
  return seen;
}

Result<SeenPatches> sample_chosen(Threads& threads, Image image, const SeeSettings& settings,
                                  bool sample) {
  const auto device = open_accelerator("cpu", false);
  if (!device) return device.error();
  const auto opened = front_end_on(*device, nullptr, threads);
  if (!opened) return opened.error();
  Stopwatch watch;
  const auto prepared = prepare(threads, **opened, image, canvas_limits_of(settings), watch);
  if (!prepared) return prepared.error();
  auto choice = choose(**opened, *prepared, settings, watch);
  if (!choice) return choice.error();
  SeenPatches seen;
  seen.image = prepared->image;
  seen.canvas = prepared->canvas();
  seen.plan = std::move(choice->plan);
  seen.fixations = std::move(choice->fixations);
  if (sample) seen.patches = sample_patches(threads, prepared->pyramid(threads), seen.plan);
  return seen;
}

}  // namespace

Result<SeenPatches> see_patches(Image image, const SeeOptions& options, const GivenPlan* given,
                                bool sample) {
  return within_memory([&]() -> Result<SeenPatches> {
    if (const auto checked = check_image(image, options); !checked) return checked.error();
    auto settings = settings_of(options);
    if (!settings) return settings.error();
    if (given != nullptr && given->maker == "uniform") settings->maker = MakerKind::kUniform;
    Threads threads(options.threads > 0 ? options.threads : usable_cores());
    if (is_blind(*settings, given))
      return sample_blind(threads, std::move(image), *settings, given, sample);
    return sample_chosen(threads, std::move(image), *settings, sample);
  });
}

}  // namespace fovea
