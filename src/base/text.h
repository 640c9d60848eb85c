// SPDX-License-Identifier: Apache-2.0
// Numbers and foreign text as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fovea {

std::string with_commas(int64_t value);  // 12345 -> "12,345"
std::string human_bytes(int64_t bytes);  // 2359296 -> "2.4 MB"

// Foreign text for a message: in quotes, printable (base/utf8.h), shortened in the middle beyond
// 100 bytes.
std::string in_quotes(std::string_view text);

}  // namespace fovea
