// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace fovea {

std::string with_commas(int64_t value);  // 12345 -> "12,345"
std::string human_bytes(int64_t bytes);  // 2359296 -> "2.4 MB"

}  // namespace fovea
