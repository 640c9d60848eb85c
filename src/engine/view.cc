// SPDX-License-Identifier: Apache-2.0
#include "engine/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/see_parts.h"
#include "patches/patches.h"

namespace fovea {
namespace {

SeeOptions see_options_of(const AskOptions& options, const ImageView& view,
                          std::span<const Point> fixations) {
  SeeOptions see;
  see.plan = options.plan;
  see.budget_tokens = options.budget_tokens;
  see.fixations.assign(fixations.begin(), fixations.end());
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

Status prepare_view(const Model& model, ImageView& view, const SeeOptions& options,
                    Stopwatch& watch) {
  const CanvasLimits limits = limits_of(model, options);
  if (view.prepared && (view.limits == limits || !view.image)) return Done{};
  const bool keep = limits_matter(view.image->size, model.checkpoint.processor().max_pixels);
  Image image = keep ? *view.image : std::move(*view.image);
  if (!keep) view.image.reset();
  auto prepared = prepare(*model.threads, std::move(image), limits, watch);
  if (!prepared) return prepared.error();
  view.prepared.emplace(std::move(*prepared));
  view.limits = limits;
  view.glance = {};
  view.look = {};
  view.memory = {};
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
int glance_tokens(const Plan& plan, Size canvas) {
  if (plan.maker != "glance+look") return 0;
  const int level = plan.cells.front().level;
  const int64_t cells = grid_at(canvas, level).cells();
  const auto coarse = std::count_if(plan.cells.begin(), plan.cells.end(),
                                    [&](const Cell& cell) { return cell.level == level; });
  return coarse == cells ? static_cast<int>(cells) : 0;
}

void encode(const Model& model, ImageView& view, Encoded& part, std::vector<Cell> cells,
            const EncodeOptions& options, Looked& looked) {
  Plan plan;
  plan.cells = std::move(cells);
  const Patches patches = sample_patches(*model.threads, view.prepared->pyramid, plan);
  looked.watch.lap("patches");
  part.tokens =
      model.tower.encode(*model.threads, patches, view.prepared->canvas(), view.memory, options);
  looked.watch.lap("tower");
  looked.encoded_tokens += plan.tokens();
  part.cells = part.tokens.count > 0 ? std::move(plan.cells) : std::vector<Cell>();
  part.number = ++view.encodings;
}

}  // namespace

Result<Looked> look(const Model& model, ImageView& view, const AskOptions& options,
                    std::span<const Point> fixations, const Plan* given,
                    const std::function<bool()>& keep_going) {
  Looked looked;
  looked.options = see_options_of(options, view, fixations);
  if (auto status = prepare_view(model, view, looked.options, looked.watch); !status)
    return status.error();
  auto choice = choose(*model.threads, *view.prepared, looked.options, looked.watch);
  if (!choice) return choice.error();
  looked.choice = std::move(*choice);
  const Size canvas = view.prepared->canvas();
  if (given != nullptr) {
    auto plan = in_order(*given, canvas);
    if (!plan) return plan.error();
    looked.choice.plan = std::move(*plan);
  }

  const std::vector<Cell>& cells = looked.choice.plan.cells;
  looked.glance_tokens = glance_tokens(looked.choice.plan, canvas);
  const bool whole = looked.glance_tokens == 0;
  const auto border = whole ? cells.end() : cells.begin() + looked.glance_tokens;
  const std::vector<Cell> glance(cells.begin(), border);
  const std::vector<Cell> rest(border, cells.end());
  const EncodeOptions encoding{
      .keep = !whole, .size_bias = options.size_bias, .keep_going = keep_going};

  if (view.glance.cells != glance || view.size_bias != options.size_bias) {
    view.memory = {};
    view.look = {};
    view.size_bias = options.size_bias;
    encode(model, view, view.glance, glance, encoding, looked);
    if (view.glance.cells.empty()) return looked;  // it was stopped
  }
  if (view.look.cells != rest) {
    view.look = {};
    view.memory.truncate(whole ? 0 : int64_t{looked.glance_tokens} * kPatchesPerCell);
    if (!rest.empty()) encode(model, view, view.look, rest, encoding, looked);
  }
  return looked;
}

Look report(const Model& model, const ImageView& view, Looked looked) {
  Look result;
  const int64_t patches = int64_t{looked.choice.plan.tokens()} * kPatchesPerCell;
  const auto bytes = patches * kPatchValues * static_cast<int64_t>(sizeof(float));
  static_cast<Sight&>(result) = make_sight(*model.threads, *view.prepared, looked.choice, view.name,
                                           looked.options, bytes, looked.watch);
  result.glance_tokens = looked.glance_tokens;
  result.encoded_tokens = looked.encoded_tokens;
  return result;
}

}  // namespace fovea
