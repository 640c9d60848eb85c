// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/read_json.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json.h"

namespace fovea::serve {
namespace {

std::optional<int64_t> whole_number(const Json& value) {
  constexpr double kInt64End = 9223372036854775808.0;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return {};
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return {};
  const auto number = value.get<double>();
  if (number != std::floor(number) || number < -kInt64End || number >= kInt64End) return {};
  return static_cast<int64_t>(number);
}

std::string range_text(NumberRange range) {
  return fmt::format("{} {} to {}", range.above_least ? "above" : "from", range.least, range.most);
}

}  // namespace

const char* kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

ApiError wrong_type(const std::string& param, const Json& value, std::string_view wanted) {
  return wrong_param(param, fmt::format("{} is {}; give {}", param, kind_of(value), wanted));
}

Fault read_int(const Json& value, const std::string& param, IntRange range, int64_t& target) {
  const auto integer = whole_number(value);
  if (integer && *integer >= range.least && *integer <= range.most) {
    target = *integer;
    return {};
  }
  const std::string wanted = fmt::format("an integer from {} to {}", range.least, range.most);
  if (!value.is_number()) return wrong_type(param, value, wanted);
  return wrong_param(param, fmt::format("{} is {}; give {}", param, json_text(value), wanted));
}

Fault read_number(const Json& value, const std::string& param, NumberRange range, double& target) {
  if (!value.is_number()) return wrong_type(param, value, "a number " + range_text(range));
  const double number = value.get<double>();
  // Written such that NaN, which no JSON holds, would be refused too.
  const bool enough = range.above_least ? number > range.least : number >= range.least;
  if (!(enough && number <= range.most))
    return wrong_param(param, fmt::format("{} is {}; give a number {}", param, json_text(value),
                                          range_text(range)));
  target = number;
  return {};
}

Json* Fields::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::param(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

ApiError Fields::wrong(std::string_view key, std::string_view message) const {
  const std::string name = param(key);
  return wrong_param(name, fmt::format("{}: {}", name, message));
}

Fault Fields::read(const char* key, bool& target) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return wrong_type(param(key), *value, "true or false");
  target = value->get<bool>();
  return {};
}

Fault Fields::read(const char* key, std::string& target) const {
  Json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_string()) return wrong_type(param(key), *value, "a string");
  target = std::move(value->get_ref<std::string&>());
  return {};
}

Fault Fields::read(const char* key, NumberRange range, double& target) const {
  const Json* value = find(key);
  return value == nullptr ? Fault() : read_number(*value, param(key), range, target);
}

Fault Fields::read(const char* key, IntRange range, int64_t& target) const {
  const Json* value = find(key);
  return value == nullptr ? Fault() : read_int(*value, param(key), range, target);
}

Fault Fields::read(const char* key, IntRange range, int& target) const {
  int64_t integer = target;
  if (auto fault = read(key, range, integer)) return fault;
  target = static_cast<int>(integer);
  return {};
}

ApiResult<Json*> Fields::typed(const char* key, Json::value_t type) const {
  Json* value = find(key);
  if (value == nullptr || value->type() == type) return value;
  return wrong_type(param(key), *value, type == Json::value_t::array ? "a list" : "an object");
}

}  // namespace fovea::serve
