// SPDX-License-Identifier: Apache-2.0
#include "serve/grammar/mend_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "base/text.h"

namespace fovea::serve {
namespace {

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  return type != "object" || value.is_object();
}

// A type that is none is xgrammar's to refuse.
bool is_of_types(const Json& value, const Json& type) {
  if (type.is_string()) return is_of_type(value, type.get_ref<const std::string&>());
  if (!type.is_array()) return true;
  return std::any_of(type.begin(), type.end(),
                     [&](const Json& one) { return is_of_types(value, one); });
}

Fault check_types(const Json& schema, const std::string& param) {
  const auto type = schema.find("type");
  if (type == schema.end()) return {};
  if (type->is_array() && type->empty())
    return wrong_param(param, "a type is an empty list, so that no value has it; name one");
  const auto refuse = [&](const Json& value, const char* key) {
    return wrong_param(param, fmt::format("{} holds {}, which is not of the type {}", key,
                                          json_text(value), json_text(*type)));
  };
  if (const auto only = schema.find("const"); only != schema.end() && !is_of_types(*only, *type))
    return refuse(*only, "const");
  const auto values = schema.find("enum");
  if (values == schema.end() || !values->is_array()) return {};
  for (const Json& value : *values)
    if (!is_of_types(value, *type)) return refuse(value, "enum");
  return {};
}

// Of these xgrammar reads the first alone, and nothing of what stands beside it.
Fault check_choices(const Json& schema, const std::string& param) {
  const char* found = nullptr;
  for (const char* key : {"$ref", "anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(key)) continue;
    if (found != nullptr)
      return wrong_param(param, fmt::format("{} stands beside {}; only one of them would hold: "
                                            "put them in one",
                                            key, found));
    found = key;
  }
  if (found == nullptr) return {};
  for (const char* key : {"properties", "required", "patternProperties"})
    if (schema.contains(key))
      return wrong_param(param, fmt::format("{} stands beside {} and would not hold; write it into "
                                            "each of its schemas",
                                            key, found));
  const auto all = schema.find("allOf");
  if (all != schema.end() && all->is_array() && all->size() > 1)
    return wrong_param(param,
                       "allOf has more than one schema, which would not hold; put them in one");
  const auto ref = schema.find("$ref");
  if (ref == schema.end() || !ref->is_string()) return {};
  const auto& to = ref->get_ref<const std::string&>();
  if (to.starts_with('#') && to != "#" && !to.starts_with("#/"))
    return wrong_param(param, fmt::format("$ref {} is an anchor; use \"#/...\"", in_quotes(to)));
  return {};
}

// Whether it looks ahead or behind, or names a group, which xgrammar leaves out.
bool has_lookaround(const std::string& pattern) {
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\')
      ++i;
    else if (in_class)
      in_class = pattern[i] != ']';
    else if (pattern[i] == '[')
      in_class = true;
    else if (pattern[i] == '(' && i + 2 < pattern.size() && pattern[i + 1] == '?' &&
             std::string_view("=!<").find(pattern[i + 2]) != std::string_view::npos)
      return true;
  }
  return false;
}

Fault check_lookaround(const std::string& pattern, const std::string& param) {
  if (!has_lookaround(pattern)) return {};
  return wrong_param(param, fmt::format("the pattern {} has (?=, (?! or (?<, which would not hold; "
                                        "write it without",
                                        in_quotes(pattern)));
}

Fault check_text(const Json& schema, const std::string& param) {
  const auto named = schema.find("patternProperties");
  if (named != schema.end() && named->is_object())
    for (const auto& [pattern, inner] : named->items())
      if (auto fault = check_lookaround(pattern, param)) return fault;
  const auto pattern = schema.find("pattern");
  if (pattern == schema.end()) return {};
  if (pattern->is_string())
    if (auto fault = check_lookaround(pattern->get_ref<const std::string&>(), param)) return fault;
  for (const char* key : {"minLength", "maxLength"})
    if (schema.contains(key))
      return wrong_param(
          param, fmt::format("{} stands beside pattern and would not hold; write it into the "
                             "pattern",
                             key));
  return {};
}

// The grammar's numbers have six decimals at most, so bounds are counted in millionths. A millionth
// of one is what doubles may be off by, as in 0.1 * 1e6.
Fault check_numbers(const Json& schema, const std::string& param) {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  const auto bound = [&](const char* key) -> const Json* {
    const auto found = schema.find(key);
    return found != schema.end() && found->is_number() ? &*found : nullptr;
  };
  constexpr double kParts = 1e6;
  constexpr double kBlur = 1e-6;
  if (const Json* min = bound("minimum"))
    least = std::max(least, std::ceil(min->get<double>() * kParts - kBlur));
  if (const Json* min = bound("exclusiveMinimum"))
    least = std::max(least, std::floor(min->get<double>() * kParts + kBlur) + 1);
  if (const Json* max = bound("maximum"))
    most = std::min(most, std::floor(max->get<double>() * kParts + kBlur));
  if (const Json* max = bound("exclusiveMaximum"))
    most = std::min(most, std::ceil(max->get<double>() * kParts - kBlur) - 1);
  constexpr double kExact = 9e15;  // beyond that a double has no parts left to count
  if (least <= most || std::abs(least) > kExact || std::abs(most) > kExact) return {};
  return wrong_param(param,
                     "no number of at most six decimals lies between the bounds of a number");
}

// xgrammar forgets names that are required and have no property. They get one that may be anything,
// where others may be.
Fault add_required(Json& schema, const std::string& param) {
  const auto required = schema.find("required");
  if (required == schema.end() || !required->is_array()) return {};
  // A copy: what is added below moves what `required` points to.
  const Json names = *required;  // NOLINT(performance-unnecessary-copy-initialization)
  const auto others = schema.find("additionalProperties");
  const bool are_open =
      (others == schema.end() || *others == true) && !schema.contains("patternProperties");
  const bool are_said = schema.contains("properties") || others != schema.end();
  for (const Json& name : names) {
    if (!name.is_string()) return wrong_param(param, "required holds what is no name");
    const auto& key = name.get_ref<const std::string&>();
    if (!schema.contains("properties")) schema["properties"] = Json::object();
    Json& properties = schema["properties"];
    if (!properties.is_object() || properties.contains(key)) continue;
    if (!are_open)
      return wrong_param(param, fmt::format("{} is required, but there is no property of that name",
                                            in_quotes(key)));
    properties[key] = Json::object();
  }
  if (!are_said && are_open && !names.empty()) schema["additionalProperties"] = true;
  return {};
}

}  // namespace

Fault mend_schema(Json& schema, const std::string& param) {
  if (schema.is_array()) {
    for (Json& one : schema)
      if (auto fault = mend_schema(one, param)) return fault;
    return {};
  }
  if (!schema.is_object()) return {};
  for (auto check : {check_types, check_choices, check_text, check_numbers})
    if (auto fault = check(schema, param)) return fault;
  if (auto fault = add_required(schema, param)) return fault;
  for (const auto& [key, inner] : schema.items()) {
    if (is_one_of(key, {"enum", "const", "default", "examples", "required"})) continue;
    const bool is_map = is_one_of(
        key, {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"});
    if (!is_map || !inner.is_object()) {
      if (auto fault = mend_schema(inner, param)) return fault;
      continue;
    }
    for (const auto& [name, one] : inner.items())
      if (auto fault = mend_schema(one, param)) return fault;
  }
  return {};
}

}  // namespace fovea::serve
