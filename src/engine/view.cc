// SPDX-License-Identifier: Apache-2.0
#include "engine/view.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/attention_settings.h"
#include "engine/given_plan.h"
#include "engine/look.h"
#include "engine/see_parts.h"
#include "gaze/gaze.h"

namespace fovea {
namespace {

CanvasLimits limits_of(const Model& model, MakerKind maker) {
  const ProcessorConfig& processor = model.checkpoint.processor();
  if (maker == MakerKind::kUniform) return {processor.min_pixels, processor.max_pixels};
  return {processor.min_pixels, kCanvasKeepsAll.max_pixels};
}

bool operator==(const CanvasLimits& a, const CanvasLimits& b) {
  return a.min_pixels == b.min_pixels && a.max_pixels == b.max_pixels;
}

// Whether two limits give different canvases of an image.
bool limits_matter(Size image, int64_t max_pixels) { return image.pixels() > max_pixels; }

Status prepare_view(const Model& model, ImageView& view, MakerKind maker, Stopwatch& watch) {
  const CanvasLimits limits = limits_of(model, maker);
  if (view.prepared && (view.limits == limits || !view.image)) return Done{};
  if (model.beginnings && view.share && !view.content)
    view.content = Hasher()
                       .value(view.image->size.width_px)
                       .value(view.image->size.height_px)
                       .bytes(std::as_bytes(std::span(view.image->rgb)))
                       .finish();
  const bool again = limits_matter(view.image->size, model.checkpoint.processor().max_pixels);
  Image copy;
  if (again) copy = *view.image;
  auto prepared = prepare(*model.threads, *model.front_end, again ? copy : *view.image, limits,
                          watch, /*keep=*/!again);
  if (!prepared) return prepared.error();
  if (!again) view.image.reset();
  view.prepared.emplace(std::move(*prepared));
  view.limits = limits;
  view.measured.reset();
  forget_parts(view);
  return Done{};
}

// The cells of a glance+look plan that cover the canvas; 0 for plans of one piece.
int count_glance(const Plan& plan, Size canvas) {
  if (plan.maker != maker_name(MakerKind::kGlanceLook)) return 0;
  const int level = plan.cells.front().level;
  const int64_t cells = grid_at(canvas, level).cells();
  const auto coarse = std::count_if(plan.cells.begin(), plan.cells.end(),
                                    [&](const Cell& cell) { return cell.level == level; });
  return coarse == cells ? static_cast<int>(cells) : 0;
}

// A plan that no question changes: a given one, or another maker's.
Status make_whole(const Model& model, const ImageView& view, const GivenPlan* given,
                  Looked& looked) {
  std::optional<Plan> settled;
  if (given != nullptr) {
    auto plan = settle_plan(*given, view.prepared->canvas(), looked.settings.options.budget_tokens);
    if (!plan) return plan.error();
    settled = std::move(*plan);
  }
  auto choice = choose(*model.front_end, *view.prepared, looked.settings, looked.watch);
  if (!choice) return choice.error();
  looked.choice = std::move(*choice);
  if (settled) looked.choice.plan = std::move(*settled);
  return Done{};
}

int64_t bytes_of(const PastLook& look) {
  int64_t bytes = 0;
  for (const Encoded& crop : look.crops) bytes += static_cast<int64_t>(crop.tokens->bytes());
  return bytes;
}

}  // namespace

void forget_parts(ImageView& view) {
  view.parts.clear();
  view.past.clear();
  view.shown = 0;
  TowerMemory empty;
  empty.pages = view.memory.pages;
  view.memory = std::move(empty);
}

void keep_look(ImageView& view, const Digest& message) {
  // Of conversations that were given up, mostly.
  constexpr size_t kMostPast = 256;
  constexpr int64_t kMostPastBytes = int64_t{256} << 20;
  std::erase_if(view.past, [&](const PastLook& look) { return look.message == message; });
  PastLook look{message, {}};
  for (const Encoded& part : view.shown_parts())
    if (part.is_crop()) look.crops.push_back(part);
  if (look.crops.empty()) return;
  view.past.push_back(std::move(look));
  int64_t bytes = 0;
  for (const PastLook& past : view.past) bytes += bytes_of(past);
  while (view.past.size() > 1 && (view.past.size() > kMostPast || bytes > kMostPastBytes)) {
    bytes -= bytes_of(view.past.front());
    view.past.erase(view.past.begin());
  }
}

std::span<const Encoded> past_crops(const ImageView& view, const Digest& message) {
  for (const PastLook& look : view.past)
    if (look.message == message) return look.crops;
  return {};
}

Result<Looked> plan_view(const Model& model, ImageView& view, const AskOptions& options,
                         size_t image) {
  Looked looked;
  looked.watch = model.stopwatch();
  looked.settings = settings_of(model, options, view, image);
  if (view.salt != options.salt) forget_parts(view);
  view.salt = options.salt;
  view.share = options.share;
  if (auto status = prepare_view(model, view, looked.settings.maker, looked.watch); !status)
    return status.error();
  const bool is_given = image < options.plans.size() && !options.plans[image].cells.empty();
  const bool whole = is_given || looked.settings.maker != MakerKind::kGlanceLook;
  if (auto status =
          whole ? make_whole(model, view, is_given ? &options.plans[image] : nullptr, looked)
                : plan_looks(model, view, options, looked);
      !status)
    return status.error();
  looked.glance_tokens = count_glance(looked.choice.plan, view.prepared->canvas());
  return looked;
}

Result<bool> show_plan(const Model& model, ImageView& view, const AskOptions& options,
                       const std::function<bool()>& keep_going, Looked& looked) {
  looked.watch.skip();
  const AttentionSchedule attention = tower_attention(model, options);
  if (view.size_bias != options.size_bias || view.attention != attention) forget_parts(view);
  view.size_bias = options.size_bias;
  view.attention = attention;
  view.shown = 0;
  const std::vector<Cell>& cells = looked.choice.plan.cells;
  const bool keep = looked.glance_tokens > 0;
  const auto border = keep ? cells.begin() + looked.glance_tokens : cells.end();
  auto shown = show_cells(model, view, {cells.begin(), border}, keep, keep_going, looked);
  if (!shown || !*shown) return shown;
  return show_cells(model, view, {border, cells.end()}, keep, keep_going, looked);
}

MostTokens most_tokens(const Model& model, const ImageView& view, const AskOptions& options,
                       size_t image) {
  const SeeSettings settings = settings_of(model, options, view, image);
  const auto is_kept = [](std::string_view maker) {
    return maker == maker_name(MakerKind::kGlanceLook);
  };
  if (image < options.plans.size() && !options.plans[image].cells.empty()) {
    const Plan& plan = options.plans[image];
    return {static_cast<int64_t>(plan.cells.size()), is_kept(plan.maker)};
  }
  const int64_t budget = budget_of(settings);
  if (budget > 0) return {budget, is_kept(options.plan)};
  const Size size = view.prepared ? view.prepared->image : view.image->size;
  const auto canvas = canvas_size(size, limits_of(model, settings.maker));
  return {canvas ? grid_at(*canvas, 0).cells() : 0, false};
}

Look report(const Model& model, const ImageView& view, Looked looked) {
  Look result;
  const int64_t patches = int64_t{looked.choice.plan.tokens()} * kPatchesPerCell;
  const auto bytes = patches * kPatchValues * static_cast<int64_t>(sizeof(float));
  std::vector<Point>& fixations = looked.choice.fixations;
  if (fixations.empty()) {
    looked.choice.scan_path = true;
    for (const Saccade& saccade : looked.saccades)
      fixations.insert(fixations.end(), saccade.fixations.begin(), saccade.fixations.end());
  }
  if (looked.choice.relevance.relevance.empty()) {  // it ended before anything was measured
    const Map none(grid_at(view.prepared->canvas(), 0));
    looked.choice.relevance.information = looked.choice.relevance.salience = none;
    looked.choice.relevance.relevance = none;
  }
  static_cast<Sight&>(result) = make_sight(*model.threads, *view.prepared, looked.choice, view.name,
                                           looked.settings.options, bytes, looked.watch);
  result.glance_tokens = looked.glance_tokens;
  result.encoded_tokens = looked.encoded_tokens;
  if (looked.look) result.look = look_name(*looked.look);
  result.saccades = std::move(looked.saccades);
  return result;
}

}  // namespace fovea
