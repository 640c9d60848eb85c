// SPDX-License-Identifier: Apache-2.0
#include "gaze/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace fovea {
namespace {

using nlohmann::json;

constexpr int kMostOnAnAxis = 1 << 24;  // of levels, rows or columns

bool is_place(const json& value) {
  // The library compares an unsigned number as if it were signed.
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{kMostOnAnAxis};
  return value.is_number_integer() && value >= -1;
}

bool is_cell(const json& cell) {
  return cell.is_array() && cell.size() == 3 && std::all_of(cell.begin(), cell.end(), is_place);
}

bool is_side(const json& side) {
  return side.is_number_unsigned() && side.get<uint64_t>() >= 1 && side.get<uint64_t>() <= 1 << 30;
}

}  // namespace

Result<PlanFile> parse_plan(std::string_view text) {
  const auto read = parse_json(text);
  if (!read) return read.error();
  const json& file = *read;
  const auto cells = file.is_object() ? file.find("cells") : file.end();
  if (cells == file.end() || !cells->is_array()) return bad_input("no JSON object with cells");
  if (cells->empty()) return bad_input("it has no cells");
  PlanFile made;
  Plan& plan = made.plan;
  if (const auto maker = file.find("plan"); maker != file.end()) {
    if (!maker->is_string()) return bad_input("\"plan\" is not the name of a maker");
    plan.maker = maker->get<std::string>();
  }
  if (const auto canvas = file.find("canvas"); canvas != file.end()) {
    if (!canvas->is_array() || canvas->size() != 2 || !is_side((*canvas)[0]) ||
        !is_side((*canvas)[1]))
      return bad_input("\"canvas\" is not [width,height]");
    made.canvas = {(*canvas)[0].get<int>(), (*canvas)[1].get<int>()};
  }
  for (const json& cell : *cells) {
    if (!is_cell(cell)) {
      const std::string shown = in_quotes(json_text(cell));
      return bad_input(fmt::format("the cell {} is not [level,row,col]", shown));
    }
    plan.cells.push_back({cell[0].get<int>(), cell[1].get<int>(), cell[2].get<int>()});
  }
  return made;
}

}  // namespace fovea
