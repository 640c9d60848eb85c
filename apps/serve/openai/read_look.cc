// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/read_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace fovea::serve {
namespace {

constexpr int kEvery = -1;  // what the engine takes for a uniform plan's level 0

struct DetailEntry {
  const char* name;
  PictureDetail detail;
  int tokens;
};
constexpr DetailEntry kDetails[] = {{"low", PictureDetail::kLow, 64},
                                    {"auto", PictureDetail::kAuto, 96},
                                    {"high", PictureDetail::kHigh, 256},
                                    {"original", PictureDetail::kOriginal, kEvery}};

void take_detail(PictureDetail detail, AskOptions& options) {
  for (const DetailEntry& one : kDetails)
    if (one.detail == detail) options.budget_tokens = one.tokens;
  if (detail == PictureDetail::kOriginal) options.plan = "uniform";
}

template <size_t N>
using Places = std::vector<std::array<double, N>>;

// [x, y] or [x, y, width, height]
template <size_t N>
Fault read_place(const Json& json, const std::string& path, std::array<double, N>& place) {
  constexpr double kFar = 1e9;
  constexpr NumberRange kWhere{-kFar, kFar};
  constexpr NumberRange kHowMuch{0, kFar, /*above_least=*/true};
  if (!json.is_array() || json.size() != N)
    return wrong_param(path, fmt::format("{}: give {}", path,
                                         N == 2 ? "[x, y], in pixels of the picture"
                                                : "[x, y, width, height], in pixels of it"));
  for (size_t i = 0; i < N; ++i)
    if (auto fault = read_number(json[i], fmt::format("{}[{}]", path, i), i < 2 ? kWhere : kHowMuch,
                                 place[i]))
      return fault;
  return {};
}

template <size_t N>
Fault read_places(const Json& json, const std::string& path, Places<N>& places) {
  constexpr size_t kMost = 256;  // each is compared with each cell of the picture
  if (json.is_null()) return {};
  if (!json.is_array()) return wrong_type(path, json, "a list");
  if (json.size() > kMost)
    return wrong_param(path, fmt::format("{} holds {}; give {} at most", path, json.size(), kMost));
  places.resize(json.size());
  for (size_t i = 0; i < json.size(); ++i)
    if (auto fault = read_place(json[i], fmt::format("{}[{}]", path, i), places[i])) return fault;
  return {};
}

bool is_place(const Json& json) { return json.is_array() && !json.empty() && json[0].is_number(); }

// A list of places for each picture; of one picture alone its list may stand there by itself.
template <size_t N>
Fault read_all_places(const Fields& fovea, const char* key, size_t pictures,
                      std::vector<Places<N>>& all) {
  auto found = fovea.list(key);
  if (auto* error = std::get_if<ApiError>(&found)) return *error;
  const Json* lists = std::get<Json*>(found);
  if (lists == nullptr || lists->empty()) return {};
  const std::string path = fovea.param(key);
  if (is_place((*lists)[0])) {
    if (pictures == 1) return read_places(*lists, path, all.emplace_back());
    return fovea.wrong(
        key, fmt::format("there are {} pictures; give a list of places for each", pictures));
  }
  if (lists->size() > pictures)
    return fovea.wrong(key, fmt::format("{} lists of places for {} pictures; give one for each",
                                        lists->size(), pictures));
  for (size_t i = 0; i < lists->size(); ++i)
    if (auto fault = read_places((*lists)[i], fmt::format("{}[{}]", path, i), all.emplace_back()))
      return fault;
  return {};
}

Fault read_fixations(const Fields& fovea, ChatCall& call) {
  std::vector<Places<2>> all;
  if (auto fault = read_all_places(fovea, "fixations", call.pictures.size(), all)) return fault;
  for (const Places<2>& places : all) {
    auto& points = call.request.options.fixations.emplace_back();
    for (const auto& [x, y] : places) points.push_back({x, y});
  }
  return {};
}

Fault read_regions(const Fields& fovea, ChatCall& call) {
  std::vector<Places<4>> all;
  if (auto fault = read_all_places(fovea, "regions", call.pictures.size(), all)) return fault;
  for (size_t i = 0; i < all.size(); ++i) call.pictures[i].regions = std::move(all[i]);
  return {};
}

// What a budget and a plan leave of the pictures' detail.
Fault read_plan(const Fields& fovea, PictureDetail detail, AskOptions& options) {
  constexpr int kMostCells = 1 << 30;
  const bool has_plan = fovea.has("plan");
  // "auto" and "original" choose a plan with its budget: a plan that is asked for has its own.
  const bool fits = !has_plan || detail == PictureDetail::kLow || detail == PictureDetail::kHigh;
  if (fits && !fovea.has("budget")) take_detail(detail, options);
  if (auto fault = fovea.read("budget", {1, kMostCells}, options.budget_tokens)) return fault;
  return fovea.read("plan", options.plan);
}

}  // namespace

std::optional<PictureDetail> detail_named(std::string_view name) {
  for (const DetailEntry& one : kDetails)
    if (one.name == name) return one.detail;
  return std::nullopt;
}

Fault read_look(const Fields& body, PictureDetail detail, ChatCall& call) {
  constexpr int kMostLooks = 1 << 20;
  AskOptions& options = call.request.options;
  auto object = body.object("fovea");
  if (auto* error = std::get_if<ApiError>(&object)) return *error;
  if (std::get<Json*>(object) == nullptr) {
    take_detail(detail, options);
    return {};
  }
  const Fields fovea(*std::get<Json*>(object), "fovea");
  if (auto fault = read_plan(fovea, detail, options)) return fault;
  if (auto fault = fovea.read("looks", {1, kMostLooks}, options.looks)) return fault;
  if (auto fault = fovea.read("look", options.look)) return fault;
  if (auto fault = fovea.read("balance", options.balance)) return fault;
  if (auto fault = fovea.read("sure", NumberRange{0, 1}, options.sure)) return fault;
  if (auto fault = fovea.read("relook", NumberRange{0, 1}, options.relook)) return fault;
  if (auto fault = fovea.read("attention", options.tower_attention)) return fault;
  if (auto fault = fovea.read("attention_text", options.text_attention)) return fault;
  if (auto fault = fovea.read("keep", NumberRange{0, 1}, options.keep)) return fault;
  if (auto fault = fovea.read("forget", options.forget)) return fault;
  if (auto fault = fovea.read("kv", options.kv)) return fault;
  if (auto fault = fovea.read("trace", call.trace)) return fault;
  options.attention = call.trace;
  options.answer_attention = call.trace;
  if (auto fault = read_fixations(fovea, call)) return fault;
  return read_regions(fovea, call);
}

Map couple_regions(const std::vector<std::array<double, 4>>& regions, Size image) {
  if (regions.empty() || image.pixels() <= 0) return {};
  constexpr uint16_t kInside = 65535;
  Map map(grid_at(image, 0));
  // Cells share the picture evenly: its canvas is the picture drawn out to whole ones.
  const double col_px = static_cast<double>(image.width_px) / map.grid.cols;
  const double row_px = static_cast<double>(image.height_px) / map.grid.rows;
  // The cells that [begin, begin + length) touches: first, and one behind the last.
  const auto touched = [](double begin_px, double length_px, double cell_px, int cells) {
    const double first = std::floor(begin_px / cell_px);
    const double behind = std::ceil((begin_px + length_px) / cell_px);
    return std::pair(static_cast<int>(std::clamp<double>(first, 0, cells)),
                     static_cast<int>(std::clamp<double>(behind, 0, cells)));
  };
  for (const auto& [x, y, width, height] : regions) {
    const auto [left, right] = touched(x, width, col_px, map.grid.cols);
    const auto [top, bottom] = touched(y, height, row_px, map.grid.rows);
    for (int row = top; row < bottom; ++row)
      for (int col = left; col < right; ++col) map.at(row, col) = kInside;
  }
  return map;
}

}  // namespace fovea::serve
