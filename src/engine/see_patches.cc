// SPDX-License-Identifier: Apache-2.0
#include "engine/see_patches.h"

#include <algorithm>
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

struct Chosen {
  std::shared_ptr<DeviceFrontEnd> front_end;  // what was prepared lies on it
  Prepared prepared;
  Choice choice;
};

Result<Chosen> choose_cells(Threads& threads, Image image, const SeeSettings& settings) {
  const auto device = open_accelerator("cpu", false);
  if (!device) return device.error();
  const auto opened = front_end_on(*device, nullptr, threads);
  if (!opened) return opened.error();
  Stopwatch watch;
  auto prepared = prepare(threads, **opened, image, canvas_limits_of(settings), watch);
  if (!prepared) return prepared.error();
  auto choice = choose(**opened, *prepared, settings, watch);
  if (!choice) return choice.error();
  return Chosen{*opened, *std::move(prepared), *std::move(choice)};
}

Result<SeenPatches> sample_chosen(Threads& threads, Image image, const SeeSettings& settings,
                                  bool sample) {
  auto chosen = choose_cells(threads, std::move(image), settings);
  if (!chosen) return chosen.error();
  SeenPatches seen;
  seen.image = chosen->prepared.image;
  seen.canvas = chosen->prepared.canvas();
  seen.plan = std::move(chosen->choice.plan);
  seen.fixations = std::move(chosen->choice.fixations);
  if (sample) seen.patches = sample_patches(threads, chosen->prepared.pyramid(threads), seen.plan);
  return seen;
}

// Puts rectangles in the place of the fine cells of a plan that has a glance.
SeenCrops crops_of(const Chosen& chosen, const SeeSettings& settings) {
  SeenCrops seen;
  seen.image = chosen.prepared.image;
  seen.canvas = chosen.prepared.canvas();
  seen.plan = chosen.choice.plan;
  std::vector<Cell>& cells = seen.plan.cells;
  const int coarsest = cells.front().level;
  const auto fine = std::find_if(cells.begin(), cells.end(),
                                 [&](const Cell& cell) { return cell.level != coarsest; });
  cells.erase(fine, cells.end());
  seen.glance_tokens = seen.plan.tokens();
  const Scene scene{.canvas = seen.canvas,
                    .relevance = &chosen.choice.relevance.relevance,
                    .fixations = chosen.choice.fixations,
                    .budget_tokens = seen.plan.budget_tokens,
                    .params = gaze_params_of(settings)};
  const int tokens = seen.plan.budget_tokens - seen.glance_tokens;
  for (const CellBlock& crop : make_crops(scene, tokens, cells)) {
    for (int row = crop.row_begin; row < crop.row_end; ++row)
      for (int col = crop.col_begin; col < crop.col_end; ++col) cells.push_back({0, row, col});
    seen.crops.push_back(
        {crop.col_begin * kCellPx,
         crop.row_begin * kCellPx,
         {(crop.col_end - crop.col_begin) * kCellPx, (crop.row_end - crop.row_begin) * kCellPx}});
  }
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

Result<SeenCrops> see_crops(Image image, const SeeOptions& options) {
  return within_memory([&]() -> Result<SeenCrops> {
    if (const auto checked = check_image(image, options); !checked) return checked.error();
    auto settings = settings_of(options);
    if (!settings) return settings.error();
    settings->maker = MakerKind::kGlanceLook;
    Threads threads(options.threads > 0 ? options.threads : usable_cores());
    const auto chosen = choose_cells(threads, std::move(image), *settings);
    if (!chosen) return chosen.error();
    return crops_of(*chosen, *settings);
  });
}

}  // namespace fovea
