// SPDX-License-Identifier: Apache-2.0
#include "engine/see_parts.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/text.h"

namespace fovea {

DecodeLimits decode_limits_of(const SeeOptions& options) {
  return {.max_pixels = options.max_pixels > 0 ? options.max_pixels : kDefaultMaxPixels};
}

CanvasLimits canvas_limits_of(const SeeOptions& options) {
  return options.plan == "uniform" ? CanvasLimits{} : kCanvasKeepsAll;
}

Result<RelevanceParams> relevance_params_of(const SeeOptions& options) {
  constexpr std::array<std::pair<const char*, Balance>, 6> kForms = {
      {{"mean", Balance::kMean},
       {"product", Balance::kProduct},
       {"sum", Balance::kSum},
       {"coupling", Balance::kCoupling},
       {"salience", Balance::kSalience},
       {"information", Balance::kInformation}}};
  RelevanceParams params;
  params.centre_bias = options.centre_bias;
  for (const auto& [name, form] : kForms) {
    if (options.balance != name) continue;
    params.balance = form;
    return params;
  }
  return bad_input(
      fmt::format("unknown balance '{}'; use mean, product, sum, coupling, salience or information",
                  options.balance));
}

GazeParams gaze_params_of(const SeeOptions& options) {
  GazeParams params;
  // Coupling alone already says how far a thing reaches: its best cells, none lost to a neighbour.
  if (options.balance == "coupling") params.neighbour_bonus = params.crowding = 0;
  return params;
}

int budget_of(const SeeOptions& options) {
  if (options.budget_tokens >= 0) return options.budget_tokens;
  return options.plan == "uniform" ? 0 : kDefaultBudgetTokens;
}

Status check_image(const Image& image, const SeeOptions& options) {
  const Size size = image.size;
  if (size.width_px < 1 || size.height_px < 1)
    return bad_input(
        fmt::format("an image of {}x{} px has no pixels", size.width_px, size.height_px));
  if (size.pixels() > decode_limits_of(options).max_pixels)
    return bad_input(
        fmt::format("an image of {}x{} px is over the limit of {} px; raise max_pixels",
                    size.width_px, size.height_px, decode_limits_of(options).max_pixels));
  if (image.rgb.size() != static_cast<size_t>(size.pixels()) * 3)
    return bad_input(fmt::format("an image of {}x{} px needs {} bytes of RGB, found {}",
                                 size.width_px, size.height_px, size.pixels() * 3,
                                 image.rgb.size()));
  return Done{};
}

Status check_coupling(const Map& coupling) {
  const auto [rows, cols] = coupling.grid;
  const bool fits =
      rows >= 0 && cols >= 0 && coupling.score.size() == static_cast<size_t>(coupling.grid.cells());
  if (fits) return Done{};
  return bad_input(fmt::format("a coupling map of {}x{} cells needs as many scores, found {}", rows,
                               cols, coupling.score.size()));
}

Result<std::vector<Point>> fixations_on_canvas(const std::vector<Point>& fixations, Size image,
                                               Size canvas) {
  std::vector<Point> placed;
  for (const Point& point : fixations) {
    const bool inside = point.x_px >= 0 && point.y_px >= 0 && point.x_px < image.width_px &&
                        point.y_px < image.height_px;  // false for NaN too
    if (!inside)
      return bad_input(fmt::format("fixation {},{} lies outside the image of {}x{} px", point.x_px,
                                   point.y_px, image.width_px, image.height_px));
    placed.push_back({point.x_px * canvas.width_px / image.width_px,
                      point.y_px * canvas.height_px / image.height_px});
  }
  return placed;
}

Scenery describe(const Sight& sight, const std::string& name, const SeeOptions& options,
                 const Pyramid& pyramid, const Relevance& relevance, const Stopwatch& watch) {
  Scenery scenery;
  scenery.pyramid = &pyramid;
  scenery.relevance = &relevance;
  scenery.plan = &sight.plan;
  scenery.fixations = sight.fixations;
  scenery.image = sight.image;
  scenery.title = name == "-" ? "stdin" : std::filesystem::path(name).filename().string();
  scenery.question = options.question;
  scenery.caption = fmt::format(
      "{} tokens of {} ({:.1f} %) · {}{} · {} of patches · {:.1f} ms",
      with_commas(sight.plan.tokens()), with_commas(sight.tokens_full),
      100.0 * sight.plan.tokens() / static_cast<double>(sight.tokens_full), sight.plan.maker,
      sight.plan.budget_tokens > 0
          ? fmt::format(", budget {}", with_commas(sight.plan.budget_tokens))
          : "",
      human_bytes(sight.patch_bytes), watch.total_ms());
  return scenery;
}

}  // namespace fovea
