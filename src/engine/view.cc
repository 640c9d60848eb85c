// SPDX-License-Identifier: Apache-2.0
#include "engine/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/look.h"
#include "engine/see_parts.h"
#include "gaze/gaze.h"

namespace fovea {
namespace {

SeeOptions see_options_of(const Model& model, const AskOptions& options, const ImageView& view,
                          size_t image) {
  SeeOptions see;
  see.plan = options.plan;
  see.budget_tokens = options.budget_tokens;
  if (image < options.fixations.size()) see.fixations = options.fixations[image];
  if (image < options.coupling.size()) see.coupling = options.coupling[image];
  see.balance = balance_of(model, options, see);
  see.max_pixels = view.max_pixels;
  see.draw = options.draw;
  return see;
}

CanvasLimits limits_of(const Model& model, const SeeOptions& options) {
  const ProcessorConfig& processor = model.checkpoint.processor();
  if (options.plan == "uniform") return {processor.min_pixels, processor.max_pixels};
  return {processor.min_pixels, kCanvasKeepsAll.max_pixels};
}

bool operator==(const CanvasLimits& a, const CanvasLimits& b) {
  return a.min_pixels == b.min_pixels && a.max_pixels == b.max_pixels;
}

// Whether two limits give different canvases of an image.
bool limits_matter(Size image, int64_t max_pixels) { return image.pixels() > max_pixels; }

void forget_parts(ImageView& view) {
  view.parts.clear();
  view.memory = {};
}

Status prepare_view(const Model& model, ImageView& view, const SeeOptions& options,
                    Stopwatch& watch) {
  const CanvasLimits limits = limits_of(model, options);
  if (view.prepared && (view.limits == limits || !view.image)) return Done{};
  const bool keep = limits_matter(view.image->size, model.checkpoint.processor().max_pixels);
  Image image = keep ? *view.image : std::move(*view.image);
  if (!keep) view.image.reset();
  auto prepared = prepare(*model.threads, std::move(image), limits, watch, model.front_end.get());
  if (!prepared) return prepared.error();
  view.prepared.emplace(std::move(*prepared));
  view.limits = limits;
  view.measured.reset();
  forget_parts(view);
  return Done{};
}

Result<Plan> in_order(Plan plan, Size canvas) {
  std::sort(plan.cells.begin(), plan.cells.end());
  const auto twice = std::adjacent_find(plan.cells.begin(), plan.cells.end());
  if (twice != plan.cells.end())
    return bad_input(fmt::format("the plan has the cell [{},{},{}] twice", twice->level, twice->row,
                                 twice->col));
  if (plan.cells.empty()) return bad_input("the plan has no cells");
  for (const Cell& cell : plan.cells) {
    const bool level = cell.level >= 0 && cell.level < level_count(canvas);
    const Grid grid = level ? grid_at(canvas, cell.level) : Grid{};
    if (cell.row < 0 || cell.row >= grid.rows || cell.col < 0 || cell.col >= grid.cols)
      return bad_input(fmt::format("the plan's cell [{},{},{}] is not on the canvas of {}x{} px",
                                   cell.level, cell.row, cell.col, canvas.width_px,
                                   canvas.height_px));
  }
  if (plan.maker.empty()) plan.maker = "given";
  return plan;
}

// The cells of a glance+look plan that cover the canvas; 0 for plans of one piece.
int count_glance(const Plan& plan, Size canvas) {
  if (plan.maker != "glance+look") return 0;
  const int level = plan.cells.front().level;
  const int64_t cells = grid_at(canvas, level).cells();
  const auto coarse = std::count_if(plan.cells.begin(), plan.cells.end(),
                                    [&](const Cell& cell) { return cell.level == level; });
  return coarse == cells ? static_cast<int>(cells) : 0;
}

// A plan that no question changes: a given one, or another maker's.
Status make_whole(const Model& model, const ImageView& view, const Plan* given, Looked& looked) {
  auto choice =
      choose(*model.threads, *view.prepared, looked.options, looked.watch, model.front_end.get());
  if (!choice) return choice.error();
  looked.choice = std::move(*choice);
  if (given == nullptr) return Done{};
  auto plan = in_order(*given, view.prepared->canvas());
  if (!plan) return plan.error();
  looked.choice.plan = std::move(*plan);
  return Done{};
}

}  // namespace

Result<Looked> glance_at(const Model& model, ImageView& view, const AskOptions& options,
                         size_t image, const std::function<bool()>& keep_going) {
  Looked looked;
  looked.watch = model.stopwatch();
  looked.options = see_options_of(model, options, view, image);
  if (auto status = prepare_view(model, view, looked.options, looked.watch); !status)
    return status.error();
  const bool is_given = image < options.plans.size() && !options.plans[image].cells.empty();
  const bool whole = is_given || options.plan != "glance+look";
  if (auto status =
          whole ? make_whole(model, view, is_given ? &options.plans[image] : nullptr, looked)
                : plan_looks(model, view, options, looked);
      !status)
    return status.error();
  looked.glance_tokens = count_glance(looked.choice.plan, view.prepared->canvas());

  if (view.size_bias != options.size_bias) forget_parts(view);
  view.size_bias = options.size_bias;
  view.shown = 0;
  const std::vector<Cell>& cells = looked.choice.plan.cells;
  const bool keep = looked.glance_tokens > 0;
  const auto border = keep ? cells.begin() + looked.glance_tokens : cells.end();
  if (!show_cells(model, view, {cells.begin(), border}, keep, keep_going, looked)) return looked;
  if (border != cells.end())
    show_cells(model, view, {border, cells.end()}, keep, keep_going, looked);
  return looked;
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
  static_cast<Sight&>(result) = make_sight(*model.threads, *view.prepared, looked.choice, view.name,
                                           looked.options, bytes, looked.watch);
  result.glance_tokens = looked.glance_tokens;
  result.encoded_tokens = looked.encoded_tokens;
  result.look = std::move(looked.look);
  result.saccades = std::move(looked.saccades);
  return result;
}

}  // namespace fovea
