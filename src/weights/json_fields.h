// SPDX-License-Identifier: Apache-2.0
// Reads settings out of a small JSON file, each with its bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"

namespace fovea {

// An object as parse_json() reads it. The error begins with "cannot use `file`".
Result<nlohmann::json> parse_settings(const std::string& file, std::string_view text);

// One object of such a file. The first setting that is missing or wrong is remembered; readers go
// on with a harmless value, and the caller asks error() once at the end.
class JsonFields {
 public:
  JsonFields(const std::string& file, const nlohmann::json& object);
  // The object at `key`; as if it were empty where it is missing (an error if `required`) or null.
  JsonFields object(const char* key, bool required);

  bool has(const char* key) const;  // there, and not null
  // In [least, most]; without a default it must be there. Null counts as missing.
  int64_t integer(const char* key, int64_t least, int64_t most,
                  std::optional<int64_t> otherwise = std::nullopt);
  double real(const char* key, double least, double most,
              std::optional<double> otherwise = std::nullopt);
  bool boolean(const char* key, bool otherwise);
  std::string string(const char* key, const std::string& otherwise);
  // A list of integers, each in [least, most]; a lone integer counts as a list of one.
  std::vector<int64_t> integers(const char* key, int64_t least, int64_t most, size_t most_items);
  // As real(), for every item of a list.
  std::vector<double> reals(const char* key, size_t most_items);

  // Settings of which one value is supported; a missing one counts as that.
  void require(const char* key, int64_t supported);
  void require(const char* key, const char* supported);

  // Remembers that the setting `key` is wrong. `what` follows its name: "is 0; it must be ...".
  void refuse(const char* key, const std::string& what);
  std::string shown(const char* key) const;  // the value as JSON, shortened

  const std::optional<Error>& error() const { return *error_; }

 private:
  JsonFields(const JsonFields& parent, const nlohmann::json* object, const std::string& prefix);
  const nlohmann::json* find(const char* key) const;
  template <class T>
  T missing(const char* key, const std::optional<T>& otherwise);
  bool whole_number(const nlohmann::json& value, int64_t least, int64_t most,
                    int64_t& result) const;

  std::string file_;
  std::string prefix_;            // "text_config."
  const nlohmann::json* object_;  // null for one that is not there
  std::shared_ptr<std::optional<Error>> error_;
};

}  // namespace fovea
