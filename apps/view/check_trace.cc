// SPDX-License-Identifier: Apache-2.0
#include "view/check_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace fovea::view {
namespace {

using Json = nlohmann::ordered_json;

// Those of the page: apps/view/page/trace.js.
constexpr int64_t kCellPx = 32;
constexpr int64_t kMostPx = int64_t{1} << 20;
constexpr int64_t kMostLevel = 24;
constexpr size_t kMostCells = size_t{1} << 20;

struct Canvas {
  int64_t width_px = 0;
  int64_t height_px = 0;
};

Error no_trace(const std::string& why) { return bad_input("it is no trace: " + why); }

bool is_whole(const Json& json, int64_t least, int64_t most) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(most)) return false;
  return json.get<int64_t>() >= least && json.get<int64_t>() <= most;
}

Result<Canvas> read_size(const Json& look, const char* key, const std::string& where) {
  const auto found = look.find(key);
  const bool fits = found != look.end() && found->is_array() && found->size() == 2 &&
                    is_whole((*found)[0], 1, kMostPx) && is_whole((*found)[1], 1, kMostPx);
  if (!fits) return no_trace(fmt::format("{}.{} is not [width, height] in pixels", where, key));
  return Canvas{(*found)[0].get<int64_t>(), (*found)[1].get<int64_t>()};
}

bool is_cell(const Json& cell, const Canvas& canvas) {
  if (!cell.is_array() || cell.size() != 3 || !is_whole(cell[0], 0, kMostLevel)) return false;
  const int64_t cell_px = kCellPx << cell[0].get<int64_t>();
  return is_whole(cell[1], 0, (canvas.height_px - 1) / cell_px) &&
         is_whole(cell[2], 0, (canvas.width_px - 1) / cell_px);
}

// A key that may be missing.
Status check_kind(const Json& object, const char* key, bool (Json::*is_kind)() const noexcept,
                  const std::string& where, const char* kind) {
  const auto found = object.find(key);
  if (found == object.end() || ((*found).*is_kind)()) return Done{};
  return no_trace(fmt::format("{}{} is not {}", where, key, kind));
}

Status check_look(const Json& look, const std::string& where) {
  if (!look.is_object()) return no_trace(where + " is not an object");
  const auto image = read_size(look, "image", where);
  if (!image) return image.error();
  const auto canvas = read_size(look, "canvas", where);
  if (!canvas) return canvas.error();
  const auto cells = look.find("cells");
  if (cells == look.end() || !cells->is_array())
    return no_trace(where + ".cells is not a list of [level, row, column]");
  if (cells->size() > kMostCells)
    return no_trace(fmt::format("{}.cells has {} of them, over the limit of {}", where,
                                cells->size(), kMostCells));
  for (size_t i = 0; i < cells->size(); ++i)
    if (!is_cell((*cells)[i], *canvas))
      return no_trace(
          fmt::format("{}.cells[{}] is not a cell [level, row, column] of its canvas", where, i));
  for (const char* key : {"saccades", "fixations", "attention"})
    if (auto checked = check_kind(look, key, &Json::is_array, where + ".", "a list"); !checked)
      return checked;
  if (auto checked = check_kind(look, "maps", &Json::is_object, where + ".", "an object"); !checked)
    return checked;
  return check_kind(look, "picture", &Json::is_string, where + ".", "a text");
}

}  // namespace

Status check_trace(const Json& trace) {
  if (!trace.is_object()) return no_trace("it is not an object");
  const auto looks = trace.find("looks");
  if (looks == trace.end() || !looks->is_array())
    return no_trace("it has no list of looks; fovea ask --trace FILE writes one");
  for (size_t i = 0; i < looks->size(); ++i)
    if (auto checked = check_look((*looks)[i], fmt::format("looks[{}]", i)); !checked)
      return checked;
  for (const char* key : {"text", "question"})
    if (auto checked = check_kind(trace, key, &Json::is_string, "", "a text"); !checked)
      return checked;
  return check_kind(trace, "answer_attention", &Json::is_array, "", "a list");
}

}  // namespace fovea::view
