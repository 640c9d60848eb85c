// SPDX-License-Identifier: Apache-2.0
#include "engine/front_end.h"

#include <utility>

#include "engine/see_parts.h"
#include "gaze/gaze.h"
#include "picture/picture.h"
#include "relevance/coupling.h"

namespace fovea {

Result<Prepared> prepare(Threads& threads, Image image, const CanvasLimits& limits,
                         Stopwatch& watch) {
  const Size size = image.size;
  const auto canvas = canvas_size(size, limits);
  if (!canvas) return canvas.error();
  Image fitted = fit_canvas(threads, std::move(image), *canvas);
  watch.lap("canvas");
  Pyramid pyramid = build_pyramid(threads, std::move(fitted));
  watch.lap("pyramid");
  Detail detail = measure_detail(threads, pyramid);
  watch.lap("detail");
  return Prepared{size, std::move(pyramid), std::move(detail)};
}

Result<Choice> choose(Threads& threads, const Prepared& prepared, const SeeOptions& options,
                      Stopwatch& watch) {
  const auto params = relevance_params_of(options);
  if (!params) return params.error();
  if (const auto checked = check_coupling(options.coupling); !checked) return checked.error();
  const Size canvas = prepared.canvas();
  auto fixations = fixations_on_canvas(options.fixations, prepared.image, canvas);
  if (!fixations) return fixations.error();

  Map coupling = options.coupling;
  if (coupling.empty() && !fixations->empty()) coupling = couple_points(*fixations, canvas);
  Choice choice;
  choice.relevance =
      measure_relevance(threads, prepared.pyramid, coupling.empty() ? nullptr : &coupling, *params);
  watch.lap("relevance");

  Scene scene{.canvas = canvas,
              .relevance = &choice.relevance.relevance,
              .detail = &prepared.detail,
              .fixations = std::move(*fixations),
              .budget_tokens = budget_of(options),
              .params = gaze_params_of(options)};
  if (scene.fixations.empty() && options.plan == "cortical")
    scene.fixations = find_fixations(*scene.relevance, canvas, scene.params.fixation_count);
  auto plan = make_plan(options.plan, scene);
  if (!plan) return plan.error();
  choice.plan = std::move(*plan);
  choice.fixations = std::move(scene.fixations);
  watch.lap("plan");
  return choice;
}

Sight make_sight(Threads& threads, const Prepared& prepared, Choice& choice,
                 const std::string& name, const SeeOptions& options, int64_t patch_bytes,
                 Stopwatch& watch) {
  Sight sight;
  sight.image = prepared.image;
  sight.canvas = prepared.canvas();
  sight.tokens_full = grid_at(sight.canvas, 0).cells();
  sight.plan = choice.plan;
  sight.fixations = choice.fixations;
  sight.patch_bytes = patch_bytes;
  Relevance& relevance = choice.relevance;
  if (options.draw) {
    Scenery scenery = describe(sight, name, options, prepared.pyramid, relevance, watch);
    scenery.scan_path = choice.scan_path;
    sight.picture = draw_picture(threads, scenery);
    watch.lap("picture");
  }
  sight.information = std::move(relevance.information);
  sight.salience = std::move(relevance.salience);
  sight.coupling = std::move(relevance.coupling);
  if (sight.coupling.empty()) sight.coupling = Map(sight.salience.grid);
  sight.relevance = std::move(relevance.relevance);
  sight.times = watch.laps();
  return sight;
}

}  // namespace fovea
