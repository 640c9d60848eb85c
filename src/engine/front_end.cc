// SPDX-License-Identifier: Apache-2.0
#include "engine/front_end.h"

#include <cstring>
#include <utility>

#include "engine/see_parts.h"
#include "gaze/gaze.h"
#include "picture/picture.h"
#include "pyramid/resize.h"
#include "relevance/coupling.h"

namespace fovea {

Result<std::shared_ptr<DeviceFrontEnd>> front_end_on(const std::shared_ptr<Accelerator>& device,
                                                     const std::shared_ptr<DeviceTower>& tower,
                                                     Threads& threads) {
  const MakeFrontEnd make = device->maker<MakeFrontEnd>(kMakeFrontEndSymbol, make_cpu_front_end);
  Result<std::shared_ptr<DeviceFrontEnd>> made = failed("");
  make(device, tower, threads, made);
  return made;
}

const Pyramid& HostCanvas::pyramid(Threads& threads) {
  if (!pyramid_) pyramid_ = build_pyramid_from(threads, pixels_);
  return *pyramid_;
}

Image HostCanvas::take() && {
  return pyramid_ ? std::move(*pyramid_).take_canvas() : std::move(pixels_);
}

namespace {

// A canvas that gives its pixels back where it does not come to its end.
class Borrowed {
 public:
  explicit Borrowed(Image& pixels)
      : pixels_(pixels), canvas_(std::make_shared<HostCanvas>(pixels)) {}
  ~Borrowed() {
    if (canvas_ != nullptr) pixels_ = std::move(*canvas_).take();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  const std::shared_ptr<HostCanvas>& canvas() const { return canvas_; }
  std::shared_ptr<HostCanvas> keep() { return std::move(canvas_); }

 private:
  Image& pixels_;
  std::shared_ptr<HostCanvas> canvas_;
};

// Of an image of `size`. The canvas stays as it was where this fails.
Result<Prepared> prepare_canvas(Threads& threads, DeviceFrontEnd& device, Size size, Image& canvas,
                                Stopwatch& watch) {
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    constexpr int64_t kChunk = int64_t{64} << 10;
    threads.for_each(static_cast<int64_t>(bytes), kChunk, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                  static_cast<size_t>(end - begin));
    });
  };
  Borrowed borrowed(canvas);
  auto there = device.prepare(borrowed.canvas(), copy, watch);
  if (!there) return there.error();
  return Prepared{size, borrowed.keep(), std::move(*there)};
}

}  // namespace

Result<Prepared> prepare(Threads& threads, DeviceFrontEnd& device, Image& image,
                         const CanvasLimits& limits, Stopwatch& watch, bool keep) {
  const Size size = image.size;
  const auto canvas = canvas_size(size, limits);
  if (!canvas) return canvas.error();
  Image resized;
  if (*canvas != size) {
    resized = resize_bicubic(threads, image, *canvas);
    if (!keep) image = {};
  }
  watch.lap("canvas");
  auto prepared = prepare_canvas(threads, device, size, *canvas != size ? resized : image, watch);
  if (prepared) image = {};
  return prepared;
}

Result<Choice> choose(DeviceFrontEnd& device, const Prepared& prepared, const SeeSettings& settings,
                      Stopwatch& watch) {
  const SeeOptions& options = settings.options;
  if (const auto checked = check_coupling(options.coupling); !checked) return checked.error();
  const Size canvas = prepared.canvas();
  auto fixations = fixations_on_canvas(options.fixations, prepared.image, canvas);
  if (!fixations) return fixations.error();

  Map coupling = options.coupling;
  if (coupling.empty() && !fixations->empty()) coupling = couple_points(*fixations, canvas);
  const PlanRequest request{.maker = settings.maker,
                            .coupling = coupling.empty() ? nullptr : &coupling,
                            .relevance = relevance_params_of(settings),
                            .fixations = std::move(*fixations),
                            .budget_tokens = budget_of(settings),
                            .gaze = gaze_params_of(settings)};
  if (auto checked = check_plan(request.maker, {.canvas = canvas,
                                                .fixations = request.fixations,
                                                .budget_tokens = request.budget_tokens,
                                                .params = request.gaze});
      !checked)
    return checked.error();
  auto made = device.choose(*prepared.on_device, request, watch);
  if (!made) return made.error();
  Choice choice;
  choice.relevance = std::move(made->relevance);
  choice.plan.maker = maker_name(request.maker);
  choice.plan.budget_tokens = request.budget_tokens;
  choice.plan.cells = std::move(made->cells);
  choice.fixations = std::move(made->fixations);
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
