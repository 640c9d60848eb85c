// SPDX-License-Identifier: Apache-2.0
#include "engine/front_end.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "engine/see_parts.h"
#include "gaze/gaze.h"
#include "picture/picture.h"
#include "relevance/coupling.h"

namespace fovea {

Result<std::shared_ptr<DeviceFrontEnd>> front_end_on(const std::shared_ptr<Accelerator>& device,
                                                     const std::shared_ptr<DeviceTower>& tower) {
  const auto make = reinterpret_cast<MakeFrontEnd>(device->function(kMakeFrontEndSymbol));
  FOVEA_CHECK(make != nullptr);
  Result<std::shared_ptr<DeviceFrontEnd>> made = failed("");
  make(device, tower, made);
  return made;
}

Prepared::Prepared(Size image_size, Pyramid pyramid, Detail its_detail)
    : image(image_size),
      detail(std::move(its_detail)),
      canvas_(pyramid.canvas()),
      pyramid_(std::move(pyramid)) {}

Prepared::Prepared(Size image_size, Image canvas_pixels, std::shared_ptr<OnDevice> there)
    : image(image_size),
      on_device(std::move(there)),
      canvas_(canvas_pixels.size),
      pixels_(std::move(canvas_pixels)) {}

const Pyramid& Prepared::pyramid(Threads& threads) const {
  if (!pyramid_) pyramid_ = build_pyramid(threads, std::move(pixels_));
  return *pyramid_;
}

Result<Prepared> prepare(Threads& threads, Image image, const CanvasLimits& limits,
                         Stopwatch& watch, DeviceFrontEnd* device) {
  const Size size = image.size;
  const auto canvas = canvas_size(size, limits);
  if (!canvas) return canvas.error();
  Image fitted = fit_canvas(threads, std::move(image), *canvas);
  watch.lap("canvas");
  if (device != nullptr) {
    const auto copy = [&](void* to, const void* from, size_t bytes) {
      constexpr int64_t kChunk = int64_t{64} << 10;
      threads.for_each(static_cast<int64_t>(bytes), kChunk, [&](int64_t begin, int64_t end) {
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                    static_cast<size_t>(end - begin));
      });
    };
    auto there = device->prepare(fitted, copy, watch);
    if (!there) return there.error();
    return Prepared(size, std::move(fitted), std::move(*there));
  }
  Pyramid pyramid = build_pyramid(threads, std::move(fitted));
  watch.lap("pyramid");
  Detail detail = measure_detail(threads, pyramid);
  watch.lap("detail");
  return Prepared(size, std::move(pyramid), std::move(detail));
}

namespace {

// Relevance and plan in one go, for a scene without them.
Result<Choice> choose_on_device(DeviceFrontEnd& device, const Prepared& prepared,
                                const std::string& maker, const Map& coupling,
                                const RelevanceParams& params, Scene scene, Stopwatch& watch) {
  if (auto checked = check_plan(maker, scene); !checked) return checked.error();
  auto made =
      device.choose(*prepared.on_device, {.maker = maker,
                                          .coupling = coupling.empty() ? nullptr : &coupling,
                                          .relevance = params,
                                          .fixations = std::move(scene.fixations),
                                          .budget_tokens = scene.budget_tokens,
                                          .gaze = scene.params});
  if (!made) return made.error();
  Choice choice;
  choice.relevance = std::move(made->relevance);
  choice.plan.maker = maker;
  choice.plan.budget_tokens = scene.budget_tokens;
  choice.plan.cells = std::move(made->cells);
  choice.fixations = std::move(made->fixations);
  watch.lap("plan");
  return choice;
}

}  // namespace

Result<Choice> choose(Threads& threads, const Prepared& prepared, const SeeOptions& options,
                      Stopwatch& watch, DeviceFrontEnd* device) {
  const auto params = relevance_params_of(options);
  if (!params) return params.error();
  if (const auto checked = check_coupling(options.coupling); !checked) return checked.error();
  const Size canvas = prepared.canvas();
  auto fixations = fixations_on_canvas(options.fixations, prepared.image, canvas);
  if (!fixations) return fixations.error();

  Map coupling = options.coupling;
  if (coupling.empty() && !fixations->empty()) coupling = couple_points(*fixations, canvas);
  Scene scene{.canvas = canvas,
              .fixations = std::move(*fixations),
              .budget_tokens = budget_of(options),
              .params = gaze_params_of(options)};
  if (device != nullptr)
    return choose_on_device(*device, prepared, options.plan, coupling, *params, std::move(scene),
                            watch);
  Choice choice;
  choice.relevance = measure_relevance(threads, prepared.pyramid(threads),
                                       coupling.empty() ? nullptr : &coupling, *params);
  watch.lap("relevance");

  scene.relevance = &choice.relevance.relevance;
  scene.detail = &prepared.detail;
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
    Scenery scenery = describe(sight, name, options, prepared.pyramid(threads), relevance, watch);
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
