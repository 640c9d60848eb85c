// SPDX-License-Identifier: Apache-2.0
// The spine of the front end: one call per room, in order.
#include <fmt/format.h>

#include <cmath>

#include "base/stopwatch.h"
#include "base/threads.h"
#include "engine/see_parts.h"
#include "fovea/fovea.h"
#include "gaze/gaze.h"
#include "media/decode.h"
#include "patches/patches.h"
#include "picture/picture.h"
#include "pyramid/canvas.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {
namespace {

Result<Sight> see_decoded(Result<Image> decoded, const std::string& name, const SeeOptions& options,
                          Stopwatch& watch) {
  if (!decoded) return decoded.error();
  const auto relevance_params = relevance_params_of(options);
  if (!relevance_params) return relevance_params.error();
  if (const auto checked = check_coupling(options.coupling); !checked) return checked.error();
  Threads threads(options.threads > 0 ? options.threads : usable_cores());

  Sight sight;
  sight.image = decoded->size;
  const auto canvas = canvas_size(sight.image, canvas_limits_of(options));
  if (!canvas) return canvas.error();
  sight.canvas = *canvas;
  sight.tokens_full = grid_at(sight.canvas, 0).cells();
  const auto fixations = fixations_on_canvas(options.fixations, sight.image, sight.canvas);
  if (!fixations) return fixations.error();

  Image fitted = fit_canvas(threads, std::move(*decoded), sight.canvas);
  watch.lap("canvas");
  const Pyramid pyramid = build_pyramid(threads, std::move(fitted));
  watch.lap("pyramid");

  const Map* coupling = options.coupling.empty() ? nullptr : &options.coupling;
  Relevance relevance = measure_relevance(threads, pyramid, coupling, *relevance_params);
  const Detail detail = measure_detail(threads, pyramid);
  watch.lap("relevance");

  Scene scene{.canvas = sight.canvas,
              .relevance = &relevance.relevance,
              .detail = &detail,
              .fixations = *fixations,
              .budget_tokens = budget_of(options)};
  if (scene.fixations.empty() && options.plan == "cortical")
    scene.fixations =
        find_fixations(relevance.relevance, scene.canvas, scene.params.fixation_count);
  auto plan = make_plan(options.plan, scene);
  if (!plan) return plan.error();
  sight.plan = std::move(*plan);
  sight.fixations = std::move(scene.fixations);
  watch.lap("plan");

  const Patches patches = sample_patches(threads, pyramid, sight.plan);
  sight.patch_bytes = static_cast<int64_t>(patches.bytes());
  watch.lap("patches");

  if (options.draw) {
    const Scenery scenery = describe(sight, name, options, pyramid, relevance, watch);
    sight.picture = draw_picture(threads, scenery);
    watch.lap("picture");
  }
  sight.information = std::move(relevance.information);
  sight.salience = std::move(relevance.salience);
  sight.coupling = coupling != nullptr ? std::move(relevance.coupling) : Map(sight.salience.grid);
  sight.relevance = std::move(relevance.relevance);
  sight.times = watch.laps();
  return sight;
}

}  // namespace

Result<Sight> see(const std::string& path, const SeeOptions& options) {
  Stopwatch watch;
  auto image = read_image(path, decode_limits_of(options));
  watch.lap("decode");
  return see_decoded(std::move(image), path, options, watch);
}

Result<Sight> see(std::span<const uint8_t> file_bytes, const SeeOptions& options) {
  Stopwatch watch;
  auto image = decode_image(file_bytes, "image", decode_limits_of(options));
  watch.lap("decode");
  return see_decoded(std::move(image), "image", options, watch);
}

Result<Sight> see(Image image, const SeeOptions& options) {
  Stopwatch watch;
  const auto checked = check_image(image, options);
  if (!checked) return checked.error();
  return see_decoded(std::move(image), "image", options, watch);
}

}  // namespace fovea
