// SPDX-License-Identifier: Apache-2.0
#include "language/template_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace fovea {
namespace {

constexpr std::string_view kReserved[] = {"messages",
                                          "tools",
                                          "documents",
                                          "add_generation_prompt",
                                          "continue_final_message",
                                          "bos_token",
                                          "eos_token",
                                          "pad_token",
                                          "unk_token",
                                          "range",
                                          "namespace",
                                          "dict",
                                          "loop",
                                          "raise_exception",
                                          "strftime_now"};

Result<nlohmann::ordered_json> parse(std::string_view text) {
  auto json = parse_ordered_json(text);
  if (!json)
    return bad_input(fmt::format("template_options: {}; give a JSON object", json.error().message));
  if (!json->is_object())
    return bad_input(
        "template_options: it is not an object; give one such as {\"enable_thinking\": false}");
  for (const auto& [name, value] : json->items())
    if (is_reserved_template_name(name))
      return bad_input(fmt::format(
          "template_options: {} is a name of the prompt's own; leave it out", in_quotes(name)));
  return json;
}

}  // namespace

bool is_reserved_template_name(std::string_view name) {
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

Result<TemplateOptions> template_options(std::string_view json, char source) {
  TemplateOptions options;
  if (json.empty()) return options;
  const auto parsed = parse(json);
  if (!parsed) return parsed.error();
  options.reserve(parsed->size());
  for (const auto& [name, value] : parsed->items())
    options.emplace_back(name, jinja::Value::from_json(value, source));
  return options;
}

Status check_template_options(std::string_view json) {
  if (json.empty()) return Done{};
  if (const auto parsed = parse(json); !parsed) return parsed.error();
  return Done{};
}

}  // namespace fovea
