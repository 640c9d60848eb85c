// SPDX-License-Identifier: Apache-2.0
#include "engine/see_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "base/text.h"

namespace fovea {

ImageLimits image_limits_of(const SeeOptions& options) {
  return {.max_pixels = options.max_pixels > 0 ? options.max_pixels : kDefaultMaxPixels};
}

Result<SeeSettings> settings_of(SeeOptions options) {
  const auto maker = find_maker(options.plan);
  if (!maker) return maker.error();
  const auto balance = find_balance(options.balance);
  if (!balance) return balance.error();
  return SeeSettings{std::move(options), *maker, *balance};
}

CanvasLimits canvas_limits_of(const SeeSettings& settings) {
  return settings.maker == MakerKind::kUniform ? CanvasLimits{} : kCanvasKeepsAll;
}

RelevanceParams relevance_params_of(const SeeSettings& settings) {
  RelevanceParams params;
  params.balance = settings.balance;
  params.centre_bias = settings.options.centre_bias;
  return params;
}

GazeParams gaze_params_of(const SeeSettings& settings) {
  GazeParams params;
  // Coupling alone already says how far a thing reaches: its best cells, none lost to a neighbour.
  if (settings.balance == Balance::kCoupling) params.neighbour_bonus = params.crowding = 0;
  return params;
}

int budget_of(const SeeSettings& settings) {
  if (settings.options.budget_tokens >= 0) return settings.options.budget_tokens;
  return settings.maker == MakerKind::kUniform ? 0 : kDefaultBudgetTokens;
}

Status check_image(const Image& image, const SeeOptions& options) {
  const Size size = image.size;
  if (size.width_px < 1 || size.height_px < 1)
    return bad_input(
        fmt::format("an image of {}x{} px has no pixels", size.width_px, size.height_px));
  if (size.pixels() > image_limits_of(options).max_pixels)
    return bad_input(
        fmt::format("an image of {}x{} px is over the limit of {} px; raise max_pixels",
                    size.width_px, size.height_px, image_limits_of(options).max_pixels));
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
