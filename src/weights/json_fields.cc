// SPDX-License-Identifier: Apache-2.0
#include "weights/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace fovea {
using nlohmann::json;

Result<json> parse_settings(const std::string& file, std::string_view text) {
  Result<json> parsed = parse_json(text);
  if (!parsed) return bad_input(fmt::format("cannot use {}: {}", file, parsed.error().message));
  if (!parsed->is_object())
    return bad_input(fmt::format("cannot use {}: it is no JSON object", file));
  return parsed;
}

JsonFields::JsonFields(const std::string& file, const json& object)
    : file_(file), object_(&object), error_(std::make_shared<std::optional<Error>>()) {}

JsonFields::JsonFields(const JsonFields& parent, const json* object, const std::string& prefix)
    : file_(parent.file_), prefix_(prefix), object_(object), error_(parent.error_) {}

JsonFields JsonFields::object(const char* key, bool required) {
  const json* value = find(key);
  if (value == nullptr && required) refuse(key, "is missing");
  if (value != nullptr && !value->is_object()) {
    refuse(key, "is " + shown(key) + "; it must be an object");
    value = nullptr;
  }
  return {*this, value, prefix_ + key + "."};
}

const json* JsonFields::find(const char* key) const {
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::has(const char* key) const { return find(key) != nullptr; }

void JsonFields::refuse(const char* key, const std::string& what) {
  if (!*error_)
    *error_ = bad_input(fmt::format("cannot use {}: {}{} {}", file_, prefix_, key, what));
}

std::string JsonFields::shown(const char* key) const {
  constexpr size_t kLongest = 60;
  const json* value = find(key);
  if (value == nullptr) return "missing";
  if (value->is_object()) return "an object";
  if (value->is_array() && value->size() > kLongest)
    return fmt::format("a list of {}", value->size());
  const std::string text = value->is_string() ? in_quotes(value->get_ref<const std::string&>())
                                              : value->dump(-1, ' ', true);
  return text.size() <= 2 * kLongest ? text : text.substr(0, kLongest) + "...";
}

template <class T>
T JsonFields::missing(const char* key, const std::optional<T>& otherwise) {
  if (!otherwise) refuse(key, "is missing");
  return otherwise.value_or(T{1});
}

bool JsonFields::whole_number(const json& value, int64_t least, int64_t most,
                              int64_t& result) const {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return false;
  result = value.get<int64_t>();
  return result >= least && result <= most;
}

int64_t JsonFields::integer(const char* key, int64_t least, int64_t most,
                            std::optional<int64_t> otherwise) {
  const json* value = find(key);
  if (value == nullptr) return missing(key, otherwise);
  int64_t result = 0;
  if (whole_number(*value, least, most, result)) return result;
  refuse(key, fmt::format("is {}; it must be a whole number from {} to {}", shown(key),
                          with_commas(least), with_commas(most)));
  return std::max<int64_t>(least, 1);
}

double JsonFields::real(const char* key, double least, double most,
                        std::optional<double> otherwise) {
  const json* value = find(key);
  if (value == nullptr) return missing(key, otherwise);
  const double result = value->is_number() ? value->get<double>() : NAN;
  if (result >= least && result <= most) return result;
  refuse(key, fmt::format("is {}; it must be a number from {} to {}", shown(key), least, most));
  return most;
}

bool JsonFields::boolean(const char* key, bool otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  refuse(key, fmt::format("is {}; it must be true or false", shown(key)));
  return otherwise;
}

std::string JsonFields::string(const char* key, const std::string& otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  refuse(key, fmt::format("is {}; it must be a string", shown(key)));
  return otherwise;
}

std::vector<int64_t> JsonFields::integers(const char* key, int64_t least, int64_t most,
                                          size_t most_items) {
  const json* value = find(key);
  std::vector<int64_t> result;
  if (value == nullptr) return result;
  const json list = value->is_array() ? *value : json::array({*value});
  bool good = list.size() <= most_items;
  for (size_t i = 0; good && i < list.size(); ++i) {
    int64_t number = 0;
    good = whole_number(list[i], least, most, number);
    result.push_back(number);
  }
  if (good) return result;
  refuse(key, fmt::format("is {}; it must hold at most {} whole numbers from {} to {}", shown(key),
                          most_items, with_commas(least), with_commas(most)));
  return {};
}

std::vector<double> JsonFields::reals(const char* key, size_t most_items) {
  const json* value = find(key);
  std::vector<double> result;
  if (value == nullptr) return result;
  bool good = value->is_array() && value->size() <= most_items;
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_number();
    if (good) result.push_back((*value)[i].get<double>());
  }
  if (good) return result;
  refuse(key,
         fmt::format("is {}; it must be a list of at most {} numbers", shown(key), most_items));
  return {};
}

void JsonFields::require(const char* key, int64_t supported) {
  if (has(key) && integer(key, INT64_MIN, INT64_MAX) != supported)
    refuse(key, fmt::format("is {}; only {} is supported", shown(key), supported));
}

void JsonFields::require(const char* key, const char* supported) {
  if (string(key, supported) != supported)
    refuse(key, fmt::format("is {}; only \"{}\" is supported", shown(key), supported));
}

}  // namespace fovea
