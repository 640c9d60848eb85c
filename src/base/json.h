// SPDX-License-Identifier: Apache-2.0
// The one way to read JSON that somebody else made, and to write JSON that quotes it.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "fovea/result.h"

namespace fovea {

// Copying, comparing, writing and freeing a value descend into it, on the stack of their thread.
// Real files have about 10 levels.
inline constexpr size_t kMaxJsonDepth = 64;

// Of memory, as values are charged: "[]," takes 25 times as much as it is long.
inline constexpr size_t kMaxJsonBytes = size_t{512} << 20;

// One value and nothing after it: at most kMaxJsonDepth levels, no key twice in an object, numbers
// that a double holds, at most so much memory. The error is the reason alone ("it is not JSON, at
// byte 7, after ..."), and `fault_byte` gets the place.
Result<nlohmann::json> parse_json(std::string_view text, size_t most_bytes = kMaxJsonBytes,
                                  size_t* fault_byte = nullptr);

// The same with the keys of objects in the order of the text. An object looks through its keys for
// each one, and what is done with such a value may add levels to it, hence lower limits.
inline constexpr size_t kMaxOrderedJsonDepth = 32;
inline constexpr size_t kMaxOrderedJsonKeys = 1000;  // of an object
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text,
                                                  size_t most_bytes = kMaxJsonBytes);

// A value as text in one line; what is not UTF-8 in it is replaced.
std::string json_text(const nlohmann::json& json);
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace fovea
