// SPDX-License-Identifier: Apache-2.0
// The keys of a request's body, each with its type and range; an error names the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api_error.h"

namespace fovea::serve {

// Tools and schemas keep the order of their keys: models were trained on it.
using Json = nlohmann::ordered_json;

using Fault = std::optional<ApiError>;  // nothing: all is well

// Values of a body, keys not counted: what a small body may cost once it is parsed.
inline constexpr size_t kMostJsonValues = 250'000;

// A body -> its object, as parse_around_urls() with all in its place (long_urls.h).
ApiResult<Json> parse_body(std::string_view body);

// Ranges hold both ends.
struct IntRange {
  int64_t least = 0;
  int64_t most = 0;
};
struct NumberRange {
  double least = 0;
  double most = 0;
  bool above_least = false;  // `least` itself is too little
};

// Each leaves `target` alone where it fails. `param` is how the error names the value. A float that
// is whole is an integer, as in JSON Schema.
Fault read_int(const Json& value, const std::string& param, IntRange range, int64_t& target);
Fault read_number(const Json& value, const std::string& param, NumberRange range, double& target);

// An object of the request. Null is as good as not given: clients write out what they leave open.
class Fields {
 public:
  // `path` leads to it ("messages[3]"); empty: the body. `object` must be one, and outlive this.
  Fields(Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  Json* find(const char* key) const;  // null where it is not given
  bool has(const char* key) const { return find(key) != nullptr; }
  std::string param(std::string_view key) const;
  ApiError wrong(std::string_view key, std::string_view message) const;

  // Each leaves `target` alone where the key is not given.
  Fault read(const char* key, bool& target) const;
  Fault read(const char* key, std::string& target) const;  // moved: pictures are large
  Fault read(const char* key, NumberRange range, double& target) const;
  Fault read(const char* key, IntRange range, int64_t& target) const;
  Fault read(const char* key, IntRange range, int& target) const;  // the range must be an int's

  // Null where it is not given; an error where it is something else.
  ApiResult<Json*> object(const char* key) const { return typed(key, Json::value_t::object); }
  ApiResult<Json*> list(const char* key) const { return typed(key, Json::value_t::array); }

 private:
  ApiResult<Json*> typed(const char* key, Json::value_t type) const;

  Json& object_;
  std::string path_;
};

// What a value is, for a message: "a string", "a list".
const char* kind_of(const Json& value);

// What is wrong with the type of a value: "stop is a number; give a string".
ApiError wrong_type(const std::string& param, const Json& value, std::string_view wanted);

}  // namespace fovea::serve
