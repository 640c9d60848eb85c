// SPDX-License-Identifier: Apache-2.0
#include "language/chat_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace fovea {
namespace {

// A template's values hold a few levels more: the list of messages and a message.
static_assert(kMaxOrderedJsonDepth + 8 <= jinja::Budget::kMaxDepth / 4);

Result<nlohmann::ordered_json> parse_tools(std::string_view what, std::string_view text) {
  auto json = parse_ordered_json(text);
  if (!json)
    return bad_input(
        fmt::format("{}: {}; give a JSON list of objects", what, json.error().message));
  const bool is_list =
      json->is_array() &&
      std::all_of(json->begin(), json->end(), [](const auto& one) { return one.is_object(); });
  if (!is_list)
    return bad_input(
        fmt::format("{}: it is not a list of objects; give a JSON list such as "
                    "[{{\"type\": \"function\", \"function\": {{\"name\": ...}}}}]",
                    what));
  return json;
}

}  // namespace

Result<jinja::Value> tools_value(std::string_view what, std::string_view json, char source) {
  const auto parsed = parse_tools(what, json);
  if (!parsed) return parsed.error();
  return jinja::Value::from_json(*parsed, source);
}

Status check_tools(std::string_view what, std::string_view json) {
  if (const auto parsed = parse_tools(what, json); !parsed) return parsed.error();
  return Done{};
}

}  // namespace fovea
