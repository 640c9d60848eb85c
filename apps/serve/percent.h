// SPDX-License-Identifier: Apache-2.0
// Paths as URLs write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fovea::serve {

// Once: "%2541" is "%41". Nothing where a percent sign is not followed by two hex digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace fovea::serve
